"""OffsetFetch: how far groups have read; from version 8 several groups at once, from 10 topics by id."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import find_topic
from mqcore.groups.commands import FetchAnswer, FetchOffsets
from mqcore.groups.facts import CommittedOffset
from mqcore.identity import Offset
from mqcore.wire.errors import ErrorCode

API = Api(9, "OffsetFetch", 1, 10)

GROUP_ERROR = 2
BATCHED = 8
TOPIC_IDS = 10

Offsets = Mapping[tuple[str, int], CommittedOffset]

NOTHING = CommittedOffset(Offset(-1))


def handle(request: Any, call: Call) -> Response | Later:
    wanted = [request] if call.version < BATCHED else _once(request.groups, _question)
    asked = [(group.group_id, FetchOffsets(_places(call, group.topics))) for group in wanted]

    def answered(answers: list[FetchAnswer | ErrorCode]) -> None:
        groups = [_group(call, group, answer) for group, answer in zip(wanted, answers, strict=True)]
        if call.version < BATCHED:
            call.answer(groups[0])
        else:
            call.answer({"groups": [{"group_id": asked[place][0], **group} for place, group in enumerate(groups)]})

    call.services.groups.submit_all(asked, answered)
    return LATER


def _question(group: Any) -> tuple[str, bool]:
    """All offsets of a group and some of them are two questions."""
    return group.group_id, group.topics is None


def _places(call: Call, topics: Any) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    places = []
    for wanted in topics:
        name = _name(call, wanted)
        if not isinstance(name, ErrorCode):
            places += [(name, index) for index in wanted.partition_indexes]
    return tuple(places)


def _name(call: Call, wanted: Any) -> str | ErrorCode:
    """A topic asked for by name need not exist: it then has no offsets, and that is no error."""
    if call.version < TOPIC_IDS:
        return str(wanted.name)
    topic = find_topic(call.services, None, wanted.topic_id)
    return topic if isinstance(topic, ErrorCode) else topic.name


def _group(call: Call, wanted: Any, answer: FetchAnswer | ErrorCode) -> Response:
    if not isinstance(answer, ErrorCode):
        if wanted.topics is None:
            return {"topics": _all(call, answer.offsets)}
        return {"topics": [_wanted(call, topic, answer.offsets) for topic in _topics_of(call, wanted)]}
    if call.version >= GROUP_ERROR:
        return {"error_code": answer, "topics": []}
    return {"topics": [_refused(call, topic, answer) for topic in _topics_of(call, wanted)]}


def _topics_of(call: Call, wanted: Any) -> list[Any]:
    return _once(wanted.topics, lambda topic: topic.topic_id if call.version >= TOPIC_IDS else topic.name)


def _once(entries: Iterable[Any], name: Callable[[Any], Hashable]) -> list[Any]:
    """Each thing is told once, however often it is asked for: an answer must not be a thousand times its request."""
    return list({name(entry): entry for entry in entries}.values())


def _wanted(call: Call, wanted: Any, offsets: Offsets) -> Response:
    name = _name(call, wanted)
    if isinstance(name, ErrorCode):
        return _refused(call, wanted, name)
    partitions = [
        _partition(index, offsets.get((name, index), NOTHING)) for index in dict.fromkeys(wanted.partition_indexes)
    ]
    return _topic(call, name, wanted.topic_id if call.version >= TOPIC_IDS else None, partitions)


def _refused(call: Call, wanted: Any, error: ErrorCode) -> Response:
    partitions = [_partition(index, NOTHING, error) for index in dict.fromkeys(wanted.partition_indexes)]
    return _topic(call, wanted.name, wanted.topic_id if call.version >= TOPIC_IDS else None, partitions)


def _all(call: Call, offsets: Offsets) -> list[Response]:
    """Topics that are gone have names, but no ids."""
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
    place = {"topic_id": topic_id} if call.version >= TOPIC_IDS else {"name": name}
    return {**place, "partitions": partitions}


def _partition(index: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE) -> Response:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
