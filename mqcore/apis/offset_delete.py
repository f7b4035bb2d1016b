"""OffsetDelete: delete a group's offsets of topics to which it no longer subscribes. One version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_partition_image
from mqcore.groups.commands import DeleteOffsets, DeleteOffsetsAnswer
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.offset_delete import OffsetDeleteRequest

API = Api(47, "OffsetDelete", 0, 0)


def handle(request: OffsetDeleteRequest, call: Call) -> Response | Later:
    if not request.group_id:
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    existing = tuple(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if find_partition_image(call.services, topic.name, partition.partition_index) is not None
    )

    def answered(answer: DeleteOffsetsAnswer | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            answer = DeleteOffsetsAnswer(answer)
        call.answer(_response(request, answer, frozenset(existing)))

    call.services.groups.submit(request.group_id, DeleteOffsets(existing), answered)
    return LATER


def _response(
    request: OffsetDeleteRequest, answer: DeleteOffsetsAnswer, existing: frozenset[tuple[str, int]]
) -> Response:
    if answer.error is not ErrorCode.NONE:
        return {"error_code": answer.error}

    def error_of(name: str, index: int) -> ErrorCode:
        if (name, index) not in existing:
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
