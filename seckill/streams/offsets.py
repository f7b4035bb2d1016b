"""How far a group has read: rows claimed on assignment and advanced, fenced by epoch, with the effects of a batch.

What is about to be tried is noted before (`begin`), and forgotten by the advance. A successor that claims a row on
which something was being tried works on that range one record at a time. Only then a death counts against a record, and
only while its process really worked on it: the note is taken back while it waits for a lock of the database
(`waiting`), because a process that is killed then says nothing of its record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from django.db import connection, transaction
from kafka import TopicPartition

from seckill.streams import statements
from seckill.streams.models import ConsumerOffset

CLAIM_LOCK_MS = 500
"""The predecessor may be frozen in the middle of its transaction; other partitions can be claimed meanwhile."""


_alone: ContextVar[Claim | None] = ContextVar("alone", default=None)


class Fenced(Exception):
    """Somebody else has claimed the partition, or the batch does not begin where the last one ended."""


class OutsideTheLog(Exception):
    """The log does not have what comes next for a group, or is not the log that it has read: records may be missing."""

    def __init__(self, partition: TopicPartition, wanted: int, start: int, end: int) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: offset {wanted} is outside {start} to {end}")


class OtherLog(OutsideTheLog):
    """At the offset of the last record that was read stands another one."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        text = f"{partition.topic}-{partition.partition}: offset {offset} is not the record that was read there"
        Exception.__init__(self, text)


class Claim(NamedTuple):
    """The right to work on a partition, until somebody claims it anew."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    group: str
    epoch: int
    next_offset: int
    deaths: int  # of processes that worked on the one record at next_offset, since the last advance
    careful_to: int  # up to here one record at a time
    last_record: str = ""  # identity of the record before next_offset, if it is known

    @property
    def place(self) -> str:
        return f"{self.group} {self.topic}-{self.partition}"


_CLAIM = """
INSERT INTO streams_offset AS mine
    (cluster_id, topic_id, topic, partition, consumer_group, epoch, next_offset, trying_to, deaths, careful_to)
VALUES (%s, %s, %s, %s, %s, 1, %s, 0, 0, 0)
ON CONFLICT (consumer_group, cluster_id, topic_id, partition) DO UPDATE SET
    epoch = mine.epoch + 1,
    deaths = mine.deaths + mine.is_at_work::int,
    is_at_work = false,
    careful_to = greatest(mine.careful_to, mine.trying_to),
    trying_to = 0
RETURNING epoch, next_offset, deaths, careful_to, last_record
"""

_MINE = "consumer_group = %b AND cluster_id = %b AND topic_id = %b AND partition = %b AND epoch = %b"

# Nothing is lost with this note if the machine fails: it is there for processes that die. So it need not be flushed.
_BEGIN = f"""
UPDATE streams_offset SET trying_to = %b
WHERE {_MINE} AND next_offset = %b AND set_config('synchronous_commit', 'off', true) IS NOT NULL
"""
_BEGIN_ALONE = f"UPDATE streams_offset SET trying_to = %b, is_at_work = true WHERE {_MINE} AND next_offset = %b"
_AT_WORK = f"UPDATE streams_offset SET is_at_work = %b WHERE {_MINE}"
_GIVE_UP = f"UPDATE streams_offset SET trying_to = 0, is_at_work = false WHERE {_MINE}"
_ADVANCE = f"""
UPDATE streams_offset SET next_offset = %b, last_record = %b, trying_to = 0, is_at_work = false, deaths = 0,
    halted = ''
WHERE {_MINE} AND next_offset = %b
"""
_POSITION = f"SELECT next_offset, last_record FROM streams_offset WHERE {_MINE}"
_HALT = f"UPDATE streams_offset SET halted = %b WHERE {_MINE}"


def claim(cluster_id: str, topic_id: str, topic: str, partition: int, group: str, log_start: int) -> Claim:
    """Take the partition over; at the very first time it begins at the log start. Whoever had it is fenced."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {CLAIM_LOCK_MS}")
        cursor.execute(_CLAIM, [cluster_id, topic_id, topic, partition, group, log_start])
        return Claim(cluster_id, topic_id, topic, partition, group, *cursor.fetchone())


def begin(claim: Claim, start: int, end: int, *, alone: bool = False) -> None:
    """Before the transaction of the effects: `start` to `end` is tried now. `Fenced` before anything has happened.
    `alone`: one record of a range in which a process died."""
    _update(_BEGIN_ALONE if alone else _BEGIN, [end, *_mine(claim), start], claim, start)
    _alone.set(claim if alone else None)


@contextmanager
def waiting() -> Iterator[None]:
    """Around what waits for a lock in the transaction of the effects: a process killed inside did not die of that.
    Noted on another connection, because that transaction may never commit; and only for a record that is tried alone.
    """
    claim = _alone.get()
    if claim is None:
        yield
        return
    _note(claim, is_at_work=False)
    yield
    _note(claim, is_at_work=True)


def _note(claim: Claim, *, is_at_work: bool) -> None:
    beside = connection.copy()
    try:
        beside.ensure_connection()
        with beside.wrap_database_errors:
            beside.connection.cursor().execute(_AT_WORK.replace("%b", "%s"), [is_at_work, *_mine(claim)])
    finally:
        beside.close()


def give_up(claim: Claim) -> None:
    """What was begun has failed, and its process lives."""
    statements.execute(_GIVE_UP, _mine(claim))


def advance(claim: Claim, start: int, end: int, last_record: str = "") -> None:
    """Inside the transaction of the effects: from `start` to `end`, or `Fenced`. `last_record`: the identity of the
    one before `end`."""
    assert connection.in_atomic_block
    _update(_ADVANCE, [end, last_record, *_mine(claim), start], claim, start)


def position(claim: Claim) -> int | None:
    """Where the claim stands; None if it is somebody else's by now."""
    at = standing(claim)
    return None if at is None else at[0]


def standing(claim: Claim) -> tuple[int, str] | None:
    """Where the claim stands, and the identity of the record before that."""
    rows = statements.fetch(_POSITION, _mine(claim))
    return (int(rows[0][0]), str(rows[0][1])) if rows else None


def halt(claim: Claim, reason: str) -> None:
    """For operators to see: the group does not go on here (seckill/streams/resuming.py)."""
    statements.execute(_HALT, [reason, *_mine(claim)])


def positions(group: str, cluster_id: str, topic_ids: Sequence[str]) -> dict[TopicPartition, int]:
    """Where the group stands in every partition of these topics that it has ever claimed."""
    rows = ConsumerOffset.objects.filter(group=group, cluster_id=cluster_id, topic_id__in=topic_ids)
    return {
        TopicPartition(topic, partition): next_offset
        for topic, partition, next_offset in rows.values_list("topic", "partition", "next_offset")
    }


def _mine(claim: Claim) -> list[str | int]:
    return [claim.group, claim.cluster_id, claim.topic_id, claim.partition, claim.epoch]


def _update(statement: str, parameters: list[str | int], claim: Claim, start: int) -> None:
    if statements.execute(statement, parameters) != 1:
        raise Fenced(f"{claim.place}: epoch {claim.epoch} at {start}")
