"""ListOffsets: the offset at a time, or at one of the special times below zero."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.partitions.partition import Partition
from mqcore.wire.batches import BadBatch
from mqcore.wire.errors import ErrorCode

API = Api(2, "ListOffsets", 1, 11)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def handle(request: Any, call: Call) -> Response:
    committed_only = request.isolation_level == READ_COMMITTED
    asked = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    twice = {place for place, times in asked.items() if times > 1}  # each look may decompress a batch
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _refuse(wanted)
                    if (topic.name, wanted.partition_index) in twice
                    else _answer(call, topic.name, wanted, committed_only)
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _refuse(wanted: Any) -> Response:
    return {"partition_index": wanted.partition_index, "error_code": ErrorCode.INVALID_REQUEST}


def _answer(call: Call, topic: str, wanted: Any, committed_only: bool) -> Response:
    answer = {"partition_index": wanted.partition_index}
    partition = find_partition(call.services, topic, None, wanted.partition_index)
    if isinstance(partition, ErrorCode):
        return answer | {"error_code": partition}
    if partition.offline is not None:
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    refusal = partition.check_epoch(wanted.current_leader_epoch)
    if refusal is not None:
        return answer | {"error_code": refusal.error}
    if call.version < FIRST_VERSION_OF.get(wanted.timestamp, 0):
        return answer | {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    try:
        timestamp, offset, epoch = _find(partition, wanted.timestamp, committed_only)
    except (OSError, LogFailed, CorruptLog, BadBatch):
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    return answer | {"timestamp": timestamp, "offset": offset, "leader_epoch": epoch}


def _find(partition: Partition, timestamp: int, committed_only: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); −1 for what there is not."""
    limit = partition.last_stable_offset if committed_only else partition.high_watermark
    log = partition.log
    match timestamp:
        case -1:
            return -1, limit, partition.leader_epoch
        case -2 | -4:
            return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
        case -5 | -6:
            return -1, -1, -1  # nothing is tiered
        case -3:
            found = log.max_timestamp(limit=limit)
        case _ if timestamp < 0:
            return -1, -1, -1
        case _:
            found = log.offset_for_time(timestamp, limit=limit)
    return (-1, -1, -1) if found is None else (found.timestamp, found.offset, found.leader_epoch)
