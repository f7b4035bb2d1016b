"""A group's offsets: rows that are claimed on assignment and advanced together with the effects, fenced by epoch.

Crashes: before a batch, `note_attempt` records its range; the advance clears it. A successor that finds a recorded
range processes it one record at a time, and only then does a crash count against a record. It does not count while the
process waits for a database lock (`waiting_for_lock`), because a process that is killed while it waits proves nothing
about the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from django.db import connection, transaction
from kafka import TopicPartition

from seckill.messaging import binary_sql
from seckill.messaging.models import ConsumerOffset

CLAIM_LOCK_MS_MAX = 500
"""A frozen predecessor may hold the row's lock; the consumer claims other partitions meanwhile."""


_alone: ContextVar[PartitionClaim | None] = ContextVar("alone", default=None)


class ClaimFenced(Exception):
    """Another consumer has claimed the partition, or the batch does not begin where the last one ended."""


class OffsetOutsideLog(Exception):
    """The log lacks the group's next offset, or is not the log that the group has read. Records may be lost."""

    def __init__(self, partition: TopicPartition, wanted: int, start: int, end: int) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: offset {wanted} is outside {start} to {end}")


class LogReplaced(OffsetOutsideLog):
    """The record at the offset of the last processed one is a different record."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        text = f"{partition.topic}-{partition.partition}: offset {offset} is not the record that was read there"
        Exception.__init__(self, text)


class PartitionClaim(NamedTuple):
    """The right to process a partition, until another consumer claims it."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    group: str
    epoch: int
    next_offset: int
    crash_count: int  # crashes while processing the record at next_offset
    single_step_until: int  # process one record at a time up to here
    last_record: str = ""  # fingerprint of the record before next_offset; "" if unknown

    @property
    def place(self) -> str:
        return f"{self.group} {self.topic}-{self.partition}"


_CLAIM = """
INSERT INTO streams_offset AS mine
    (cluster_id, topic_id, topic, partition, consumer_group, epoch, next_offset,
     attempting_until, crash_count, single_step_until)
VALUES (%s, %s, %s, %s, %s, 1, %s, 0, 0, 0)
ON CONFLICT (consumer_group, cluster_id, topic_id, partition) DO UPDATE SET
    epoch = mine.epoch + 1,
    crash_count = mine.crash_count + mine.is_processing::int,
    is_processing = false,
    single_step_until = greatest(mine.single_step_until, mine.attempting_until),
    attempting_until = 0
RETURNING epoch, next_offset, crash_count, single_step_until, last_record
"""

_OF_CLAIM = "consumer_group = %b AND cluster_id = %b AND topic_id = %b AND partition = %b AND epoch = %b"

# Survives a crash of the process, which is all it is for, so the commit need not wait for the disk.
_NOTE = f"""
UPDATE streams_offset SET attempting_until = %b
WHERE {_OF_CLAIM} AND next_offset = %b AND set_config('synchronous_commit', 'off', true) IS NOT NULL
"""
_NOTE_ALONE = (
    f"UPDATE streams_offset SET attempting_until = %b, is_processing = true WHERE {_OF_CLAIM} AND next_offset = %b"
)
_SET_PROCESSING = f"UPDATE streams_offset SET is_processing = %b WHERE {_OF_CLAIM}"
_CLEAR = f"UPDATE streams_offset SET attempting_until = 0, is_processing = false WHERE {_OF_CLAIM}"
_ADVANCE = f"""
UPDATE streams_offset SET next_offset = %b, last_record = %b, attempting_until = 0, is_processing = false,
    crash_count = 0, halted = ''
WHERE {_OF_CLAIM} AND next_offset = %b
"""
_POSITION = f"SELECT next_offset, last_record FROM streams_offset WHERE {_OF_CLAIM}"
_HALT = f"UPDATE streams_offset SET halted = %b WHERE {_OF_CLAIM}"


def claim_partition(
    cluster_id: str, topic_id: str, topic: str, partition: int, group: str, log_start: int
) -> PartitionClaim:
    """Take the partition over and fence its previous owner. The first claim ever begins at the start of the log."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {CLAIM_LOCK_MS_MAX}")
        cursor.execute(_CLAIM, [cluster_id, topic_id, topic, partition, group, log_start])
        return PartitionClaim(cluster_id, topic_id, topic, partition, group, *cursor.fetchone())


def note_attempt(claim: PartitionClaim, start: int, end: int, *, alone: bool = False) -> None:
    """Call this before the transaction of the effects of `start` to `end`. Raises `ClaimFenced`. `alone`: a single
    record of a range in which a process has crashed."""
    _update(_NOTE_ALONE if alone else _NOTE, [end, *_key(claim), start], claim, start)
    _alone.set(claim if alone else None)


@contextmanager
def waiting_for_lock() -> Iterator[None]:
    """Wrap a wait for a lock in the transaction of the effects: a crash inside does not count against the record. The
    note uses a connection of its own, because the transaction may never commit. Only records processed alone need it.
    """
    claim = _alone.get()
    if claim is None:
        yield
        return
    _note(claim, is_processing=False)
    yield
    _note(claim, is_processing=True)


def _note(claim: PartitionClaim, *, is_processing: bool) -> None:
    own = connection.copy()
    try:
        own.ensure_connection()
        with own.wrap_database_errors:
            own.connection.cursor().execute(_SET_PROCESSING.replace("%b", "%s"), [is_processing, *_key(claim)])
    finally:
        own.close()


def clear_attempt(claim: PartitionClaim) -> None:
    """The attempt has failed without a crash."""
    binary_sql.execute(_CLEAR, _key(claim))


def advance(claim: PartitionClaim, start: int, end: int, last_record: str = "") -> None:
    """Move the offset from `start` to `end`, inside the transaction of the effects. Raises `ClaimFenced`.
    `last_record` is the fingerprint of the record before `end`."""
    assert connection.in_atomic_block
    _update(_ADVANCE, [end, last_record, *_key(claim), start], claim, start)


def current_offset(claim: PartitionClaim) -> int | None:
    """The next offset; None if another consumer has claimed the partition."""
    found = current_position(claim)
    return None if found is None else found[0]


def current_position(claim: PartitionClaim) -> tuple[int, str] | None:
    """The next offset and the fingerprint of the record before it; None if another consumer has the partition."""
    rows = binary_sql.fetch(_POSITION, _key(claim))
    return (int(rows[0][0]), str(rows[0][1])) if rows else None


def mark_halted(claim: PartitionClaim, reason: str) -> None:
    """Record why the group stops here until an operator resumes it (seckill/messaging/halted_groups.py)."""
    binary_sql.execute(_HALT, [reason, *_key(claim)])


def group_offsets(group: str, cluster_id: str, topic_ids: Sequence[str]) -> dict[TopicPartition, int]:
    """The group's next offset in each partition of these topics that it has ever claimed."""
    rows = ConsumerOffset.objects.filter(group=group, cluster_id=cluster_id, topic_id__in=topic_ids)
    return {
        TopicPartition(topic, partition): next_offset
        for topic, partition, next_offset in rows.values_list("topic", "partition", "next_offset")
    }


def _key(claim: PartitionClaim) -> list[str | int]:
    return [claim.group, claim.cluster_id, claim.topic_id, claim.partition, claim.epoch]


def _update(statement: str, parameters: list[str | int], claim: PartitionClaim, start: int) -> None:
    if binary_sql.execute(statement, parameters) != 1:
        raise ClaimFenced(f"{claim.place}: epoch {claim.epoch} at {start}")
