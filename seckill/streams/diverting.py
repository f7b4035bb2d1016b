"""Diverting a queue that is too long: new requests go to the topic beside it, which is consumed first.

Nobody may overtake himself, so whoever has something open in the old topic stays there; all others go beside, wholly.
Divert: (1) producers are told to send nothing; (2) each says that it knows, and that nothing of it is under way; (3)
the users between the group's offsets and the topic's end are written down; (4) producers go on by that list. Most of
the list is read before (1), so buyers wait about a second. Rejoin: the same first two steps, then (3) the group passes
the end of the topic beside, and (4) everybody is sent to the one topic again.

As with slots (seckill/streams/moving.py), each step is one conditional update of one row, and may be done again.
Whoever fails between (1) and (4) puts the row back: everybody is waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from seckill.audit.trail import acting
from seckill.streams import cluster, moving
from seckill.streams.models import ConsumerOffset, Divert, SlotMap
from seckill.streams.moving import Refused, Tell
from seckill.streams.slots import LEASE_S
from seckill.streams.stayers import Stayers, mark
from seckill.topics import Topic

DIVERT, REJOIN = "divert", "rejoin"
SHORT = 500
"""So few left in the topic beside are worked off while everybody waits."""
FRESH_S = LEASE_S - 2
QUIET_S = 20.0

Read = Callable[[int, int], None]
"""Is told how many records have been read, of how many."""


class Begun(NamedTuple):
    """A divert in force: its number, and how many users stay where they are."""

    number: int
    users: int


def divert(bootstrap_servers: str, topic: Topic, group: str, tell: Tell, read: Read = lambda done, of: None) -> Begun:
    """`Refused` says why not; nothing has changed then."""
    beside = _beside(topic)
    row = moving.table(topic)
    if row.diverted:
        raise Refused("new requests are diverted already; `seckill backlog rejoin` ends that")
    _may_turn(row, DIVERT)
    known_to = max(row.partition_of)
    if known_to >= cluster.count_partitions(bootstrap_servers, beside):
        raise Refused(f"{beside.name} has no partition {known_to}; `seckill topics` adds what is missing")
    moving.wait(
        lambda: moving.who(topic, "partitions <= %s", known_to), "producers that do not know the topic beside", tell
    )
    described = cluster.describe(bootstrap_servers, [topic])
    starts = _read_to(described, topic, group)
    ends = moving.ends_of(bootstrap_servers, topic, range(cluster.count_partitions(bootstrap_servers, topic)))
    marks = users_in(bootstrap_servers, topic, starts, ends, read)
    with _turned(topic, DIVERT, tell) as row:
        tail = moving.ends_of(bootstrap_servers, topic, list(ends))
        marks |= users_in(bootstrap_servers, topic, ends, tail)
        return _begin(row, marks)


def rejoin(bootstrap_servers: str, topic: Topic, group: str, tell: Tell) -> int:
    """The version of the table afterwards."""
    beside = _beside(topic)
    row = moving.table(topic)
    if not row.diverted:
        raise Refused("nothing is diverted")
    _may_turn(row, REJOIN)
    partitions = range(cluster.count_partitions(bootstrap_servers, beside))
    described = cluster.describe(bootstrap_servers, [beside])
    moving.wait(
        lambda: _too_much(described, beside, group, moving.ends_of(bootstrap_servers, beside, partitions)),
        f"{group}, which has yet to work off what was diverted", tell,
    )  # fmt: skip
    with _turned(topic, REJOIN, tell) as row:
        barrier = moving.ends_of(bootstrap_servers, beside, partitions)
        moving.pass_by(bootstrap_servers, beside, group, barrier, tell)
        return _change(REJOIN, row, diverted=0, turning="")


def abort(topic: Topic) -> int:
    """Of somebody who died in the middle: as it was before. The version of the table afterwards."""
    row = moving.table(topic)
    if not row.turning:
        raise Refused("no divert and no rejoin is under way")
    return _change(f"abort {row.turning}", row, turning="")


def users_in(
    bootstrap_servers: str, topic: Topic, starts: Mapping[int, int], ends: Mapping[int, int],
    read: Read = lambda done, of: None,
) -> set[int]:  # fmt: skip
    """The marks of all whose records stand between the two."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, enable_auto_commit=False, auto_offset_reset="none", max_poll_records=5000,
        fetch_max_wait_ms=100,
    )  # fmt: skip
    marks: set[int] = set()
    try:
        first = consumer.beginning_offsets([TopicPartition(topic.name, partition) for partition in ends])
        at = {place: max(starts.get(place.partition, 0), begin) for place, begin in first.items()}
        left = {place for place in at if at[place] < ends[place.partition]}
        of = sum(ends[place.partition] - at[place] for place in left)
        consumer.assign(sorted(left))
        for place in left:
            consumer.seek(place, at[place])
        give_up = time.monotonic() + QUIET_S
        while left:
            if time.monotonic() > give_up:
                raise Refused(f"{topic.name} cannot be read to its end: {sorted(left)}")
            for records in consumer.poll(timeout_ms=200).values():
                give_up = time.monotonic() + QUIET_S
                marks.update(mark(record.key) for record in records if record.key)
            for place in [place for place in left if consumer.position(place) >= ends[place.partition]]:
                left.discard(place)
                consumer.pause(place)
            read(of - sum(max(0, ends[place.partition] - consumer.position(place)) for place in left), of)
    finally:
        consumer.close()
    return marks


# ── one row, from one version to the next ────────────────────────────────────────────────────────


@contextmanager
def _turned(topic: Topic, what: str, tell: Tell) -> Iterator[SlotMap]:
    """Steps 1 and 2: inside, nobody sends and nothing is under way. Left by an exception, all is as it was."""
    late = "producers that have not been heard of: their leases have to end"
    moving.wait(lambda: moving.who(topic, "expires_at < now() + make_interval(secs => %s)", FRESH_S), late, tell)
    row = moving.table(topic)
    if row.turning != what:  # else: somebody died in the middle of the same
        _change(f"{what}, nobody sends", row, turning=what)
        row = moving.table(topic)
    try:
        unaware = "producers that may still write by the old table"
        moving.wait(lambda: moving.who(topic, "version < %s", row.version), unaware, tell)
        yield row
    except BaseException:
        if SlotMap.objects.filter(topic=topic.name, version=row.version, turning=what).exists():
            _change(f"abort {what}", row, turning="")
        raise


def _begin(row: SlotMap, marks: set[int]) -> Begun:
    stayers = Stayers(marks)
    with acting("backlog divert", row.topic, version=row.version + 1, stay=len(stayers)):
        made = Divert.objects.create(topic=row.topic, stayers=stayers.encode(), users=len(stayers))
        _update(row, diverted=made.pk, turning="")
    return Begun(made.pk, len(stayers))


def _change(step: str, row: SlotMap, **values: object) -> int:
    with acting(f"backlog {step}", row.topic, version=row.version + 1):
        _update(row, **values)
    return row.version + 1


def _update(row: SlotMap, **values: object) -> None:
    if SlotMap.objects.filter(topic=row.topic, version=row.version).update(version=row.version + 1, **values) != 1:
        raise Refused("somebody else has changed the table meanwhile; look again with `seckill backlog show`")


# ── what it looks at ─────────────────────────────────────────────────────────────────────────────


def _beside(topic: Topic) -> Topic:
    assert topic.beside is not None, f"{topic.name} has no topic beside it"
    return topic.beside


def _may_turn(row: SlotMap, what: str) -> None:
    if row.moving:
        raise Refused("slots are being moved: `seckill slots finish` or `abort` first")
    if row.turning not in ("", what):
        raise Refused(f"a {row.turning} is under way; `seckill backlog abort` ends one whose operator has died")


def _read_to(described: cluster.Cluster, topic: Topic, group: str) -> dict[int, int]:
    rows = ConsumerOffset.objects.filter(cluster_id=described.id, topic_id=described.topic_ids[topic.name], group=group)
    return {row.partition: row.next_offset for row in rows}


def _too_much(described: cluster.Cluster, topic: Topic, group: str, ends: Mapping[int, int]) -> list[str]:
    read = _read_to(described, topic, group)
    left = sum(max(0, end - read.get(partition, 0)) for partition, end in ends.items())
    return [f"{left:,} records"] if left > SHORT else []
