"""OffsetCommit: record how far a group has read. Partitions that do not exist are refused one by one.

Versions: 5 drops the retention time, 6 adds the leader epoch, 7 group.instance.id; 9 answers GROUP_ID_NOT_FOUND for an
unknown group, which was ILLEGAL_GENERATION before (KIP-848); 10 has topic ids instead of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_topic
from mqcore.groups.commands import CommitAnswer, CommitOffsets, OffsetToCommit
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.offset_commit import OffsetCommitRequest

API = Api(8, "OffsetCommit", 2, 10)

GROUP_ID_NOT_FOUND = 9
TOPIC_IDS = 10

Position = tuple[int, int]
"""Where an entry of the request is: (topic, partition)."""


def handle(request: OffsetCommitRequest, call: Call) -> Response | Later:
    errors: dict[Position, ErrorCode] = {}
    offsets: dict[Position, OffsetToCommit] = {}
    for topic_position, wanted_topic in enumerate(request.topics):
        name = wanted_topic.name if call.version < TOPIC_IDS else None
        topic = find_topic(call.services, name, wanted_topic.topic_id)
        for position, wanted in enumerate(wanted_topic.partitions):
            if isinstance(topic, ErrorCode):
                errors[topic_position, position] = topic
            elif not 0 <= wanted.partition_index < len(topic.partitions):
                errors[topic_position, position] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets[topic_position, position] = OffsetToCommit(
                    topic.name,
                    wanted.partition_index,
                    Offset(wanted.committed_offset),
                    LeaderEpoch(wanted.committed_leader_epoch),
                    wanted.committed_metadata or "",
                )
    if not offsets:
        return _response(request, errors)
    command = CommitOffsets(
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id,
        tuple(offsets.values()),
        request.retention_time_ms if request.retention_time_ms >= 0 else None,
    )

    def answered(answer: CommitAnswer | ErrorCode) -> None:
        results = (answer,) * len(offsets) if isinstance(answer, ErrorCode) else answer.errors
        if call.version < GROUP_ID_NOT_FOUND and ErrorCode.GROUP_ID_NOT_FOUND in results:
            results = (ErrorCode.ILLEGAL_GENERATION,) * len(offsets)
        errors.update(zip(offsets, results, strict=True))
        call.answer(_response(request, errors))

    call.services.groups.submit(request.group_id, command, answered)
    return LATER


def _response(request: OffsetCommitRequest, errors: dict[Position, ErrorCode]) -> Response:
    return {
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition_index": partition.partition_index, "error_code": errors[topic_position, position]}
                    for position, partition in enumerate(topic.partitions)
                ],
            }
            for topic_position, topic in enumerate(request.topics)
        ]
    }
