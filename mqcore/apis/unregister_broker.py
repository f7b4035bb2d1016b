"""UnregisterBroker: forget a broker that will not come back. One version. KIP-631.

A running broker is not unregistered: one request would take away all its partitions, and a broker that is alone would
never register again. Kafka unregisters it, and it registers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.controller_requests import error_of, message_of, refusal_of
from mqcore.controller.cluster_commands import UnregisterBroker
from mqcore.controller.commands import ControllerAnswer
from mqcore.coordination.journal import JournalFault
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.wire.requests.unregister_broker import UnregisterBrokerRequest

API = Api(64, "UnregisterBroker", 0, 0, forwarded=True)


def handle(request: UnregisterBrokerRequest, call: Call) -> Response | Later:
    broker = BrokerId(request.broker_id)
    registered = call.services.image.brokers.get(broker)
    if call.services.controller.is_active and registered is not None and not registered.fenced:
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": f"broker {broker} is running: stop it first"}

    def answered(answer: ControllerAnswer | JournalFault) -> None:
        outcome = refusal_of(answer) if isinstance(answer, JournalFault) else answer
        refusal = outcome if isinstance(outcome, Refusal) else None
        call.answer({"error_code": error_of(refusal), "error_message": message_of(refusal)})

    call.services.controller.submit(UnregisterBroker(broker), answered)
    return LATER
