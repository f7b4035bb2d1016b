"""InitProducerId: an id for an idempotent producer, taken from a block that the metadata log has reserved.

An id is never given twice, not even after a crash, because the rest of a block is lost with the process.

Versions: 3 adds the producer's present id and epoch, which it wants to renew (KIP-360).
Left out: transactional ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.controller.commands import ProducerIdBlock, ReserveProducerIds
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.init_producer_id import InitProducerIdRequest

API = Api(22, "InitProducerId", 0, 5)


def handle(request: InitProducerIdRequest, call: Call) -> Response | Later:
    if request.transactional_id is not None:
        # This is the only error on which every client, librdkafka included, gives up at once.
        unsupported = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _refusal(unsupported if request.transactional_id else ErrorCode.INVALID_REQUEST)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refusal(ErrorCode.INVALID_REQUEST)
    ids = call.services.producer_ids
    if ids.left:
        return _new_producer(ids.take())

    def reserved(answer: object) -> None:
        if isinstance(answer, ProducerIdBlock):
            ids.refill(answer.first, answer.count)
            call.answer(_new_producer(ids.take()))
        else:
            call.answer(_refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    call.services.controller.submit(ReserveProducerIds(BrokerId(call.services.config.node_id)), reserved)
    return LATER


def _new_producer(producer_id: int) -> Response:
    return {"producer_id": producer_id, "producer_epoch": 0}


def _refusal(error: ErrorCode) -> Response:
    return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
