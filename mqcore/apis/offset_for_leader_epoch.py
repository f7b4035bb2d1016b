"""OffsetForLeaderEpoch: where a leader epoch ended, so that a client notices a truncated log (KIP-320).

Versions: 2, the first served, has the current leader epoch for fencing; 3 adds the replica id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_led_in_epoch
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition

API = Api(23, "OffsetForLeaderEpoch", 2, 4)


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> Response:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_partition(call, topic.topic, each) for each in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(call: Call, topic: str, wanted: OffsetForLeaderPartition) -> Response:
    partition = find_led_in_epoch(call.services, topic, wanted.partition, wanted.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return {"partition": wanted.partition, "error_code": partition}
    epoch, end = partition.log.epochs.end_offset_for(wanted.leader_epoch)
    return {"partition": wanted.partition, "leader_epoch": epoch, "end_offset": end}
