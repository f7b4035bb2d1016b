"""DeleteRecords: advance the log start. Answered once the new starts are on disk, so deleted records never return.

Versions: all have the same fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.identity import INTERNAL_TOPICS, Offset
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.wire.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest

API = Api(21, "DeleteRecords", 0, 2)

NewStart = Offset | ErrorCode


def handle(request: DeleteRecordsRequest, call: Call) -> Response:
    starts = [
        (topic.name, [(each.partition_index, _advance_start(call, topic.name, each)) for each in topic.partitions])
        for topic in request.topics
    ]
    has_advanced = any(not isinstance(start, ErrorCode) for _, partitions in starts for _, start in partitions)
    storage_error = _write_checkpoints(call) if has_advanced else ErrorCode.NONE
    return {
        "topics": [
            {"name": name, "partitions": [_result(index, start, storage_error) for index, start in partitions]}
            for name, partitions in starts
        ]
    }


def _advance_start(call: Call, topic: str, wanted: DeleteRecordsPartition) -> NewStart:
    partition = find_partition(call.services, topic, None, wanted.partition_index)
    if isinstance(partition, ErrorCode):
        return partition
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not partition.allows_record_deletion:
        return ErrorCode.POLICY_VIOLATION
    start = partition.delete_records(wanted.offset)
    return start.error if isinstance(start, Refusal) else start


def _write_checkpoints(call: Call) -> ErrorCode:
    try:
        call.services.durability.write_checkpoints()
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _result(index: int, start: NewStart, storage_error: ErrorCode) -> Response:
    error = start if isinstance(start, ErrorCode) else storage_error
    low_watermark = start if error is ErrorCode.NONE else -1
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error}
