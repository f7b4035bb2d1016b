"""AllocateProducerIds: a broker reserves a block of ids for idempotent producers. One version. KIP-730."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.broker_requests import submit
from mqcore.apis.call import Api, Call, Later
from mqcore.controller.broker_messages import decode_reservation, encode_reserved

if TYPE_CHECKING:
    from mqcore.wire.requests.allocate_producer_ids import AllocateProducerIdsRequest

API = Api(67, "AllocateProducerIds", 0, 0)


def handle(request: AllocateProducerIdsRequest, call: Call) -> Later:
    return submit(call, decode_reservation(request), encode_reserved)
