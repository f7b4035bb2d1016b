"""DeleteRecords: the log start moves up. Answered once the new starts are on disk: deleted records do not come back."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.controller.image import INTERNAL_TOPICS
from mqcore.identity import Offset
from mqcore.wire.errors import ErrorCode, Refusal

API = Api(21, "DeleteRecords", 0, 2)

Outcome = Offset | ErrorCode


def handle(request: Any, call: Call) -> Response:
    outcomes = [
        (topic.name, [(each.partition_index, _delete(call, topic.name, each)) for each in topic.partitions])
        for topic in request.topics
    ]
    moved = any(not isinstance(outcome, ErrorCode) for _, partitions in outcomes for _, outcome in partitions)
    fault = _keep(call) if moved else ErrorCode.NONE
    return {
        "topics": [
            {"name": name, "partitions": [_result(index, outcome, fault) for index, outcome in partitions]}
            for name, partitions in outcomes
        ]
    }


def _delete(call: Call, topic: str, wanted: Any) -> Outcome:
    partition = find_partition(call.services, topic, None, wanted.partition_index)
    if isinstance(partition, ErrorCode):
        return partition
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not partition.log.config.delete:
        return ErrorCode.POLICY_VIOLATION  # compacted topics keep the last record of each key
    start = partition.delete_records(wanted.offset)
    return start.error if isinstance(start, Refusal) else start


def _keep(call: Call) -> ErrorCode:
    try:
        call.services.partitions.checkpoint()
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _result(index: int, outcome: Outcome, fault: ErrorCode) -> Response:
    error = outcome if isinstance(outcome, ErrorCode) else fault
    low_watermark = outcome if error is ErrorCode.NONE else -1
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error}
