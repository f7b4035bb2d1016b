"""FindCoordinator: which broker a group has to talk to. The first who asks brings `__consumer_offsets` into being."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.records import OFFSETS_TOPIC, partition_of
from mqcore.wire.errors import ErrorCode

API = Api(10, "FindCoordinator", 0, 6)

BATCHED = 4

GROUP, TRANSACTION = 0, 1


def handle(request: Any, call: Call) -> Response | Later:
    if request.key_type != GROUP:
        known = request.key_type == TRANSACTION
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST
        return _response(request, call, error)
    call.services.ensure_offsets_topic(lambda error: call.answer(_response(request, call, error)))
    return LATER


def _response(request: Any, call: Call, error: ErrorCode) -> Response:
    if call.version < BATCHED:
        return _coordinator(request.key, call, error)
    return {"coordinators": [{"key": key, **_coordinator(key, call, error)} for key in request.coordinator_keys]}


def _coordinator(group_id: str, call: Call, error: ErrorCode) -> Response:
    services = call.services
    topic = services.image.topics.get(OFFSETS_TOPIC)
    if error is ErrorCode.NONE and topic is not None and topic.partitions:
        leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
        endpoint = services.endpoint(leader, call.listener)
        if endpoint is not None:
            return {"error_code": ErrorCode.NONE, "node_id": leader, "host": endpoint[0], "port": endpoint[1]}
    refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NONE else error
    return {"error_code": refusal, "error_message": _MESSAGES.get(refusal), "node_id": -1, "host": "", "port": -1}


_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This type of coordinator does not exist here.",
}
