"""InitProducerId: an identity for an idempotent producer, from a block that the metadata log has reserved.

Ids are never given twice, also not after a crash: what is left of a block is lost with the process.
"""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.controller.commands import ProducerIdBlock, ReserveProducerIds
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode

API = Api(22, "InitProducerId", 0, 5)


def handle(request: Any, call: Call) -> Response | Later:
    if request.transactional_id is not None:
        # Not served yet. Of all refusals this is the one on which every client gives up at once, librdkafka included.
        unserved = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        wrong = unserved if request.transactional_id else ErrorCode.INVALID_REQUEST
        return {"error_code": wrong, "producer_id": -1, "producer_epoch": -1}
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return {"error_code": ErrorCode.INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    ids = call.services.producer_ids
    if ids.left:
        return _given(ids.take())

    def reserved(answer: object) -> None:
        if isinstance(answer, ProducerIdBlock):
            ids.refill(answer.first, answer.count)
            call.answer(_given(ids.take()))
        else:
            unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            call.answer({"error_code": unavailable, "producer_id": -1, "producer_epoch": -1})

    call.services.controller.submit(ReserveProducerIds(BrokerId(call.services.config.node_id)), reserved)
    return LATER


def _given(producer_id: int) -> Response:
    return {"producer_id": producer_id, "producer_epoch": 0}
