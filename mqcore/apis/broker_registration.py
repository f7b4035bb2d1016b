"""BrokerRegistration: a broker has started and announces its addresses. KIP-631.

Versions: 4 is the first that names the epoch of the broker's life before. Brokers of this program send no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.broker_requests import submit
from mqcore.apis.call import Api, Call, Later, Response
from mqcore.controller.broker_messages import decode_registration, encode_registered
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.wire.requests.broker_registration import BrokerRegistrationRequest

API = Api(62, "BrokerRegistration", 4, 4)


def handle(request: BrokerRegistrationRequest, call: Call) -> Response | Later:
    if request.cluster_id != call.services.cluster_id:
        return encode_registered(Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
    return submit(call, decode_registration(request), encode_registered)
