"""FindCoordinator: the broker that coordinates a group. The first request creates `__consumer_offsets`.

Versions: 1 adds the key type, 4 several keys in one request (KIP-699), 6 share groups (KIP-932).
Left out: coordinators of transactions and of share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.services import Services
from mqcore.groups.records import partition_of
from mqcore.identity import OFFSETS_TOPIC
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.find_coordinator import FindCoordinatorRequest

API = Api(10, "FindCoordinator", 0, 6)

BATCHED = 4

GROUP, TRANSACTION = 0, 1

_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This type of coordinator is not supported.",
}


def handle(request: FindCoordinatorRequest, call: Call) -> Response | Later:
    if request.key_type == TRANSACTION:
        # Name a broker, so that InitProducerId refuses the producer at once. Otherwise clients would retry without end.
        return _response(request, call, ErrorCode.NONE)
    if request.key_type != GROUP:
        return _response(request, call, ErrorCode.INVALID_REQUEST)
    call.services.internal_topics.ensure(OFFSETS_TOPIC, lambda error: call.answer(_response(request, call, error)))
    return LATER


def _response(request: FindCoordinatorRequest, call: Call, error: ErrorCode) -> Response:
    is_transaction = request.key_type == TRANSACTION
    if call.version < BATCHED:
        return _coordinator(request.key, call, error, is_transaction)
    keys = request.coordinator_keys
    return {"coordinators": [{"key": key, **_coordinator(key, call, error, is_transaction)} for key in keys]}


def _coordinator(key: str, call: Call, error: ErrorCode, is_transaction: bool) -> Response:
    services = call.services
    leader = services.controller_id() if is_transaction else _leader(services, key)
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
