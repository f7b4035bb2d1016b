"""OffsetDelete: forget how far a group has read a topic that it no longer subscribes to."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.groups.commands import DeleteOffsets, DeleteOffsetsAnswer
from mqcore.wire.errors import ErrorCode

API = Api(47, "OffsetDelete", 0, 0)


def handle(request: Any, call: Call) -> Response | Later:
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    known = tuple(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if _exists(call, topic.name, partition.partition_index)
    )

    def answered(answer: DeleteOffsetsAnswer | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            answer = DeleteOffsetsAnswer(answer)
        call.answer(_response(request, answer, frozenset(known)))

    call.services.groups.submit(request.group_id, DeleteOffsets(known), answered)
    return LATER


def _exists(call: Call, name: str, index: int) -> bool:
    topic = call.services.image.topics.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)


def _response(request: Any, answer: DeleteOffsetsAnswer, known: frozenset[tuple[str, int]]) -> Response:
    if answer.error is not ErrorCode.NONE:
        return {"error_code": answer.error}

    def error_of(name: str, index: int) -> ErrorCode:
        if (name, index) not in known:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name in answer.subscribed_topics else ErrorCode.NONE

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": error_of(topic.name, partition.partition_index),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
