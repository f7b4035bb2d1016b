"""OffsetFetch: how far groups have read.

Versions: 2 adds an error code for the group and a null list for all topics, 7 the wait for stable offsets, which needs
transactions; 8 asks for several groups at once, 9 adds the member (KIP-848), 10 has topic ids instead of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_topic
from mqcore.apis.unique import unique_by
from mqcore.groups.commands import FetchAnswer, FetchOffsets
from mqcore.groups.facts import CommittedOffset
from mqcore.identity import Offset
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

API = Api(9, "OffsetFetch", 1, 10)

GROUP_ERROR = 2
BATCHED = 8
TOPIC_IDS = 10

GroupRequest: TypeAlias = "OffsetFetchRequest | OffsetFetchRequestGroup"
"""Before version 8 the request itself names its one group."""

TopicRequest: TypeAlias = "OffsetFetchRequestTopic | OffsetFetchRequestTopics"
Offsets = Mapping[tuple[str, int], CommittedOffset]

NOT_COMMITTED = CommittedOffset(Offset(-1))


def handle(request: OffsetFetchRequest, call: Call) -> Later:
    groups: Sequence[GroupRequest]
    if call.version < BATCHED:
        groups = [request]
    else:  # all offsets of a group and some of its offsets are two different questions
        groups = unique_by(request.groups, lambda group: (group.group_id, group.topics is None))
    commands = [(group.group_id, FetchOffsets(_partitions(call, group.topics))) for group in groups]

    def answered(answers: list[FetchAnswer | ErrorCode]) -> None:
        results = [_group(call, group, answer) for group, answer in zip(groups, answers, strict=True)]
        if call.version < BATCHED:
            call.answer(results[0])
        else:
            named = zip(groups, results, strict=True)
            call.answer({"groups": [{"group_id": group.group_id, **result} for group, result in named]})

    call.services.groups.submit_all(commands, answered)
    return LATER


def _partitions(call: Call, topics: Sequence[TopicRequest] | None) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    partitions = []
    for topic in topics:
        name = _name(call, topic)
        if not isinstance(name, ErrorCode):
            partitions += [(name, index) for index in topic.partition_indexes]
    return tuple(partitions)


def _name(call: Call, topic: TopicRequest) -> str | ErrorCode:
    """A topic requested by name need not exist: then it has no offsets, which is not an error."""
    if call.version < TOPIC_IDS:
        return topic.name
    found = find_topic(call.services, None, _topic_id(topic))
    return found if isinstance(found, ErrorCode) else found.name


def _topic_id(topic: TopicRequest) -> UUID | None:
    return getattr(topic, "topic_id", None)  # before version 8 it has none


def _group(call: Call, group: GroupRequest, answer: FetchAnswer | ErrorCode) -> Response:
    if not isinstance(answer, ErrorCode):
        if group.topics is None:
            return {"topics": _all_topics(call, answer.offsets)}
        return {"topics": [_requested_topic(call, topic, answer.offsets) for topic in _unique_topics(call, group)]}
    if call.version >= GROUP_ERROR:
        return {"error_code": answer, "topics": []}
    return {"topics": [_refused_topic(call, topic, answer) for topic in _unique_topics(call, group)]}


def _unique_topics(call: Call, group: GroupRequest) -> list[TopicRequest]:
    topics: Sequence[TopicRequest] = group.topics or ()
    return unique_by(topics, _topic_id if call.version >= TOPIC_IDS else lambda topic: topic.name)


def _requested_topic(call: Call, topic: TopicRequest, offsets: Offsets) -> Response:
    name = _name(call, topic)
    if isinstance(name, ErrorCode):
        return _refused_topic(call, topic, name)
    partitions = [
        _partition(index, offsets.get((name, index), NOT_COMMITTED)) for index in dict.fromkeys(topic.partition_indexes)
    ]
    return _topic(call, name, _topic_id(topic), partitions)


def _refused_topic(call: Call, topic: TopicRequest, error: ErrorCode) -> Response:
    partitions = [_partition(index, NOT_COMMITTED, error) for index in dict.fromkeys(topic.partition_indexes)]
    return _topic(call, topic.name, _topic_id(topic), partitions)


def _all_topics(call: Call, offsets: Offsets) -> list[Response]:
    """Deleted topics have names but no ids, so versions with ids leave them out."""
    by_topic: dict[str, list[Response]] = {}
    for (name, index), committed in sorted(offsets.items()):
        by_topic.setdefault(name, []).append(_partition(index, committed))
    topics = call.services.image.topics
    return [
        _topic(call, name, topics[name].id if name in topics else None, partitions)
        for name, partitions in by_topic.items()
        if name in topics or call.version < TOPIC_IDS
    ]


def _topic(call: Call, name: str, topic_id: UUID | None, partitions: list[Response]) -> Response:
    identity = {"topic_id": topic_id} if call.version >= TOPIC_IDS else {"name": name}
    return {**identity, "partitions": partitions}


def _partition(index: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE) -> Response:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
