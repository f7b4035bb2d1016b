"""AlterPartitionReassignments: a cluster of one has nowhere to move a partition; staying is allowed."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(45, "AlterPartitionReassignments", 0, 1)

_MESSAGES = {
    ErrorCode.NONE: None,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the partition does not exist",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "no reassignment is in progress",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "copies are not moved between brokers",
}


def handle(request: Any, call: Call) -> Response:
    return {
        "allow_replication_factor_change": getattr(request, "allow_replication_factor_change", True),
        "responses": [
            {"name": topic.name, "partitions": [_result(call, topic.name, each) for each in topic.partitions]}
            for topic in request.topics
        ],
    }


def _result(call: Call, name: str, wanted: Any) -> Response:
    error = _reassign(call, name, wanted)
    return {"partition_index": wanted.partition_index, "error_code": error, "error_message": _MESSAGES[error]}


def _reassign(call: Call, name: str, wanted: Any) -> ErrorCode:
    topic = call.services.image.topics.get(name)
    if topic is None or not 0 <= wanted.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    if tuple(wanted.replicas) == topic.partitions[wanted.partition_index].replicas:
        return ErrorCode.NONE
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT
