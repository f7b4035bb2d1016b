"""FindCoordinator: which broker a group has to talk to. The first who asks brings `__consumer_offsets` into being."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.services import Services
from mqcore.groups.records import OFFSETS_TOPIC, partition_of
from mqcore.wire.errors import ErrorCode

API = Api(10, "FindCoordinator", 0, 6)

BATCHED = 4

GROUP, TRANSACTION = 0, 1


def handle(request: Any, call: Call) -> Response | Later:
    if request.key_type == TRANSACTION:  # so that InitProducerId, not an endless search, tells what is not served
        return _response(request, call, ErrorCode.NONE)
    if request.key_type != GROUP:
        return _response(request, call, ErrorCode.INVALID_REQUEST)
    call.services.ensure_offsets_topic(lambda error: call.answer(_response(request, call, error)))
    return LATER


def _response(request: Any, call: Call, error: ErrorCode) -> Response:
    transaction = request.key_type == TRANSACTION
    if call.version < BATCHED:
        return _coordinator(request.key, call, error, transaction)
    keys = request.coordinator_keys
    return {"coordinators": [{"key": key, **_coordinator(key, call, error, transaction)} for key in keys]}


def _coordinator(key: str, call: Call, error: ErrorCode, transaction: bool) -> Response:
    services = call.services
    leader = min(services.image.brokers, default=None) if transaction else _leader(services, key)
    if error is ErrorCode.NONE and leader is not None:
        endpoint = services.endpoint(leader, call.listener)
        if endpoint is not None:
            return {"error_code": ErrorCode.NONE, "node_id": leader, "host": endpoint[0], "port": endpoint[1]}
    refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NONE else error
    return {"error_code": refusal, "error_message": _MESSAGES.get(refusal), "node_id": -1, "host": "", "port": -1}


def _leader(services: Services, group_id: str) -> int | None:
    topic = services.image.topics.get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return None
    return topic.partitions[partition_of(group_id, len(topic.partitions))].leader


_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This type of coordinator does not exist here.",
}
