"""AlterPartitionReassignments: accepted only if the partition stays where it is, because there is one broker.

Versions: 1 adds the flag that forbids changing the replication factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition_image
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )

API = Api(45, "AlterPartitionReassignments", 0, 1)

_MESSAGES = {
    ErrorCode.NONE: None,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the partition does not exist",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "no reassignment is in progress",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "replicas cannot be moved between brokers",
}


def handle(request: AlterPartitionReassignmentsRequest, call: Call) -> Response:
    return {
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "responses": [
            {"name": topic.name, "partitions": [_result(call, topic.name, each) for each in topic.partitions]}
            for topic in request.topics
        ],
    }


def _result(call: Call, topic: str, wanted: ReassignablePartition) -> Response:
    error = _reassignment_error(call, topic, wanted)
    return {"partition_index": wanted.partition_index, "error_code": error, "error_message": _MESSAGES[error]}


def _reassignment_error(call: Call, topic: str, wanted: ReassignablePartition) -> ErrorCode:
    partition = find_partition_image(call.services, topic, wanted.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.replicas is None:  # null cancels a reassignment
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    if tuple(wanted.replicas) == partition.replicas:
        return ErrorCode.NONE
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT
