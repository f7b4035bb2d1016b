"""OffsetForLeaderEpoch: where an epoch ended, so that a client notices a log that was cut (KIP-320)."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.wire.errors import ErrorCode

API = Api(23, "OffsetForLeaderEpoch", 2, 4)


def handle(request: Any, call: Call) -> Response:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_answer(call, topic.topic, wanted) for wanted in topic.partitions]}
            for topic in request.topics
        ]
    }


def _answer(call: Call, topic: str, wanted: Any) -> Response:
    answer = {"partition": wanted.partition}
    partition = find_partition(call.services, topic, None, wanted.partition)
    if isinstance(partition, ErrorCode):
        return answer | {"error_code": partition}
    if partition.offline is not None:
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    refusal = partition.check_epoch(wanted.current_leader_epoch)
    if refusal is not None:
        return answer | {"error_code": refusal.error}
    epoch, end = partition.log.epochs.end_offset_for(wanted.leader_epoch)
    return answer | {"leader_epoch": epoch, "end_offset": end}
