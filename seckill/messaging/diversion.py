"""Diverting a long queue: new requests go to an overflow topic, which is consumed first.

A user's requests must stay in order, so a user with a request in the old queue stays there ("pinned"); all requests of
other users go to the overflow topic.

Divert: (1) the row tells producers to pause; (2) each producer confirms that, once nothing that it sent is under way;
(3) the users between the group's offsets and the end of the topic are stored; (4) producers continue with that list.
Most of the list is read before (1), so purchases pause for about a second.
Rejoin: the same first two steps, then (3) the group passes the end of the overflow topic, and (4) producers send all
requests to the one topic again.

As with slots (seckill/messaging/slot_moves.py), each step is one conditional update of one row and can be repeated. If
a step between (1) and (4) fails, the row is restored, because all purchases are waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from seckill.audit.trail import audited
from seckill.config.kafka_clients import client_options
from seckill.messaging import kafka_cluster, slot_moves
from seckill.messaging.models import ConsumerOffset, Divert, SlotMap
from seckill.messaging.pinned_users import PinnedUsers, user_mark
from seckill.messaging.slot_moves import Report, SlotChangeRefused
from seckill.messaging.slots import LEASE_SECONDS
from seckill.messaging.topics import Topic

DIVERT, REJOIN = "divert", "rejoin"
OVERFLOW_LAG_RECORDS_MAX = 500
"""A rejoin starts only when the overflow topic has no more than this left, because purchases pause meanwhile."""
LEASE_REMAINING_SECONDS_MIN = LEASE_SECONDS - 2
READ_STALL_SECONDS_MAX = 20.0

ReportProgress = Callable[[int, int], None]
"""Called with the number of records read so far, and the number of all."""


class Diversion(NamedTuple):
    """A divert in force: its number, and how many users are pinned to the old queue."""

    number: int
    users: int


def divert(
    bootstrap_servers: str, topic: Topic, group: str, report: Report, progress: ReportProgress = lambda done, of: None
) -> Diversion:
    """Raises `SlotChangeRefused` with the reason; nothing has changed then."""
    overflow = _overflow_of(topic)
    row = slot_moves.load_slot_map(topic)
    if row.diverted:
        raise SlotChangeRefused("new requests are already diverted; `seckill backlog rejoin` ends that")
    _check_can_change(row, DIVERT)
    highest = max(row.partition_of)
    if highest >= kafka_cluster.count_partitions(bootstrap_servers, overflow):
        raise SlotChangeRefused(f"{overflow.name} has no partition {highest}; `seckill topics` adds what is missing")
    slot_moves.wait_until_empty(
        lambda: slot_moves.producers_where(topic, "partitions <= %s", highest),
        "producers that do not know the overflow topic",
        report,
    )
    described = kafka_cluster.describe_cluster(bootstrap_servers, [topic])
    starts = _offsets_of(described, topic, group)
    ends = slot_moves.end_offsets(
        bootstrap_servers, topic, range(kafka_cluster.count_partitions(bootstrap_servers, topic))
    )
    marks = collect_user_marks(bootstrap_servers, topic, starts, ends, progress)
    with _producers_paused(topic, DIVERT, report) as row:
        tail = slot_moves.end_offsets(bootstrap_servers, topic, list(ends))
        marks |= collect_user_marks(bootstrap_servers, topic, ends, tail)
        return _begin(row, marks)


def rejoin(bootstrap_servers: str, topic: Topic, group: str, report: Report) -> int:
    """Returns the new version of the slot map."""
    overflow = _overflow_of(topic)
    row = slot_moves.load_slot_map(topic)
    if not row.diverted:
        raise SlotChangeRefused("nothing is diverted")
    _check_can_change(row, REJOIN)
    partitions = range(kafka_cluster.count_partitions(bootstrap_servers, overflow))
    described = kafka_cluster.describe_cluster(bootstrap_servers, [overflow])
    slot_moves.wait_until_empty(
        lambda: _overflow_lag(
            described, overflow, group, slot_moves.end_offsets(bootstrap_servers, overflow, partitions)
        ),
        f"{group} to work off the diverted requests", report,
    )  # fmt: skip
    with _producers_paused(topic, REJOIN, report) as row:
        barrier = slot_moves.end_offsets(bootstrap_servers, overflow, partitions)
        slot_moves.wait_until_passed(bootstrap_servers, overflow, group, barrier, report)
        return _change(REJOIN, row, diverted=0, transition="")


def abort_diversion(topic: Topic) -> int:
    """Undo a change whose operator's process died in the middle. Returns the new version of the slot map."""
    row = slot_moves.load_slot_map(topic)
    if not row.transition:
        raise SlotChangeRefused("neither a divert nor a rejoin is under way")
    return _change(f"abort {row.transition}", row, transition="")


def collect_user_marks(
    bootstrap_servers: str, topic: Topic, starts: Mapping[int, int], ends: Mapping[int, int],
    progress: ReportProgress = lambda done, of: None,
) -> set[int]:  # fmt: skip
    """The marks of all users with a record between these offsets."""
    consumer = KafkaConsumer(
        **client_options(bootstrap_servers), enable_auto_commit=False, auto_offset_reset="none", max_poll_records=5000,
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
        give_up = time.monotonic() + READ_STALL_SECONDS_MAX
        while left:
            if time.monotonic() > give_up:
                raise SlotChangeRefused(
                    f"{topic.name} is not answering in partitions {sorted(place.partition for place in left)}"
                )
            for records in consumer.poll(timeout_ms=200).values():
                give_up = time.monotonic() + READ_STALL_SECONDS_MAX
                marks.update(user_mark(record.key) for record in records if record.key)
            for place in [place for place in left if consumer.position(place) >= ends[place.partition]]:
                left.discard(place)
                consumer.pause(place)
            progress(of - sum(max(0, ends[place.partition] - consumer.position(place)) for place in left), of)
    finally:
        consumer.close()
    return marks


# ── one row, from one version to the next ────────────────────────────────────────────────────────


@contextmanager
def _producers_paused(topic: Topic, change: str, report: Report) -> Iterator[SlotMap]:
    """Steps 1 and 2: inside the block no producer sends and nothing is under way. An exception restores the row."""
    silent = "the leases of silent producers to end"
    slot_moves.wait_until_empty(
        lambda: slot_moves.producers_where(
            topic, "expires_at < now() + make_interval(secs => %s)", LEASE_REMAINING_SECONDS_MIN
        ),
        silent,
        report,
    )
    row = slot_moves.load_slot_map(topic)
    if row.transition != change:  # else: an earlier operator's process died in the middle of the same change
        _change(f"{change}, producers pause", row, transition=change)
        row = slot_moves.load_slot_map(topic)
    try:
        outdated = "producers that may still write by the old slot map"
        slot_moves.wait_until_empty(
            lambda: slot_moves.producers_where(topic, "version < %s", row.version), outdated, report
        )
        yield row
    except BaseException:
        if SlotMap.objects.filter(topic=topic.name, version=row.version, transition=change).exists():
            _change(f"abort {change}", row, transition="")
        raise


def _begin(row: SlotMap, marks: set[int]) -> Diversion:
    pinned_users = PinnedUsers(marks)
    with audited("backlog divert", row.topic, version=row.version + 1, stay=len(pinned_users)):
        made = Divert.objects.create(topic=row.topic, pinned_users=pinned_users.encode(), users=len(pinned_users))
        _update(row, diverted=made.pk, transition="")
    return Diversion(made.pk, len(pinned_users))


def _change(step: str, row: SlotMap, **values: object) -> int:
    with audited(f"backlog {step}", row.topic, version=row.version + 1):
        _update(row, **values)
    return row.version + 1


def _update(row: SlotMap, **values: object) -> None:
    if SlotMap.objects.filter(topic=row.topic, version=row.version).update(version=row.version + 1, **values) != 1:
        raise SlotChangeRefused("another operator has changed the slot map meanwhile; see `seckill backlog show`")


# ── reading the state ─────────────────────────────────────────────────────────────────────────────


def _overflow_of(topic: Topic) -> Topic:
    assert topic.overflow is not None, f"{topic.name} has no overflow topic"
    return topic.overflow


def _check_can_change(row: SlotMap, change: str) -> None:
    if row.moving:
        raise SlotChangeRefused("slots are being moved: `seckill slots finish` or `abort` first")
    if row.transition not in ("", change):
        raise SlotChangeRefused(
            f"a {row.transition} is under way; if its operator has died, `seckill backlog abort` ends it"
        )


def _offsets_of(described: kafka_cluster.ClusterIds, topic: Topic, group: str) -> dict[int, int]:
    rows = ConsumerOffset.objects.filter(cluster_id=described.id, topic_id=described.topic_ids[topic.name], group=group)
    return {row.partition: row.next_offset for row in rows}


def _overflow_lag(described: kafka_cluster.ClusterIds, topic: Topic, group: str, ends: Mapping[int, int]) -> list[str]:
    read = _offsets_of(described, topic, group)
    left = sum(max(0, end - read.get(partition, 0)) for partition, end in ends.items())
    return [f"{left:,} records"] if left > OVERFLOW_LAG_RECORDS_MAX else []
