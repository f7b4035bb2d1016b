"""OffsetCommit: a consumer writes down how far it has read; partitions that do not exist are refused one by one."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_topic
from mqcore.groups.commands import CommitAnswer, CommitOffsets, OffsetToCommit
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode

API = Api(8, "OffsetCommit", 2, 10)

NO_GROUP = 9  # before, a group that is not there was one of another generation (KIP-848)
TOPIC_IDS = 10


def handle(request: Any, call: Call) -> Response | Later:
    errors: dict[tuple[int, int], ErrorCode] = {}  # by place in the request
    offsets: dict[tuple[int, int], OffsetToCommit] = {}
    for topic_place, wanted_topic in enumerate(request.topics):
        name = wanted_topic.name if call.version < TOPIC_IDS else None
        topic = find_topic(call.services, name, wanted_topic.topic_id)
        for place, wanted in enumerate(wanted_topic.partitions):
            if isinstance(topic, ErrorCode):
                errors[topic_place, place] = topic
            elif not 0 <= wanted.partition_index < len(topic.partitions):
                errors[topic_place, place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets[topic_place, place] = OffsetToCommit(
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
        committed = (answer,) * len(offsets) if isinstance(answer, ErrorCode) else answer.errors
        if call.version < NO_GROUP and ErrorCode.GROUP_ID_NOT_FOUND in committed:
            committed = (ErrorCode.ILLEGAL_GENERATION,) * len(offsets)
        errors.update(zip(offsets, committed, strict=True))
        call.answer(_response(request, errors))

    call.services.groups.submit(request.group_id, command, answered)
    return LATER


def _response(request: Any, errors: dict[tuple[int, int], ErrorCode]) -> Response:
    return {
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition_index": partition.partition_index, "error_code": errors[topic_place, place]}
                    for place, partition in enumerate(topic.partitions)
                ],
            }
            for topic_place, topic in enumerate(request.topics)
        ]
    }
