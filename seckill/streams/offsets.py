"""How far a group has read: rows claimed on assignment and advanced, fenced by epoch, with the effects of a batch.

What is about to be tried is noted before (`begin`), and forgotten by the advance. Who claims a row on which something
was being tried knows that his predecessor died of it, or at it: that range is then worked on one record at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection, transaction
from kafka import TopicPartition

from seckill.streams import statements
from seckill.streams.models import ConsumerOffset

CLAIM_LOCK_MS = 500
"""The predecessor may be frozen in the middle of its transaction; other partitions can be claimed meanwhile."""


class Fenced(Exception):
    """Somebody else has claimed the partition, or the batch does not begin where the last one ended."""


class OutsideTheLog(Exception):
    """The log does not have what comes next for a group: evidence is missing, so nobody guesses."""

    def __init__(self, partition: TopicPartition, wanted: int, start: int, end: int) -> None:
        super().__init__(f"{partition.topic}-{partition.partition}: offset {wanted} is outside {start} to {end}")


class Claim(NamedTuple):
    """The right to work on a partition, until somebody claims it anew."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    group: str
    epoch: int
    next_offset: int
    deaths: int  # of processes that tried what stands at next_offset, since the last advance
    careful_to: int  # up to here one record at a time

    @property
    def place(self) -> str:
        return f"{self.group} {self.topic}-{self.partition}"


_CLAIM = """
INSERT INTO streams_offset AS mine
    (cluster_id, topic_id, topic, partition, consumer_group, epoch, next_offset, trying_to, deaths, careful_to)
VALUES (%s, %s, %s, %s, %s, 1, %s, 0, 0, 0)
ON CONFLICT (consumer_group, cluster_id, topic_id, partition) DO UPDATE SET
    epoch = mine.epoch + 1,
    deaths = mine.deaths + (mine.trying_to > mine.next_offset)::int,
    careful_to = greatest(mine.careful_to, mine.trying_to),
    trying_to = 0
RETURNING epoch, next_offset, deaths, careful_to
"""

_MINE = "consumer_group = %b AND cluster_id = %b AND topic_id = %b AND partition = %b AND epoch = %b"

# Nothing is lost with this note if the machine fails: it is there for processes that die. So it need not be flushed.
_BEGIN = f"""
UPDATE streams_offset SET trying_to = %b
WHERE {_MINE} AND next_offset = %b AND set_config('synchronous_commit', 'off', true) IS NOT NULL
"""
_GIVE_UP = f"UPDATE streams_offset SET trying_to = 0 WHERE {_MINE}"
_ADVANCE = f"UPDATE streams_offset SET next_offset = %b, trying_to = 0, deaths = 0 WHERE {_MINE} AND next_offset = %b"
_POSITION = f"SELECT next_offset FROM streams_offset WHERE {_MINE}"


def claim(cluster_id: str, topic_id: str, topic: str, partition: int, group: str, log_start: int) -> Claim:
    """Take the partition over; at the very first time it begins at the log start. Whoever had it is fenced."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {CLAIM_LOCK_MS}")
        cursor.execute(_CLAIM, [cluster_id, topic_id, topic, partition, group, log_start])
        return Claim(cluster_id, topic_id, topic, partition, group, *cursor.fetchone())


def begin(claim: Claim, start: int, end: int) -> None:
    """Before the transaction of the effects: `start` to `end` is tried now. `Fenced` before anything has happened."""
    _update(_BEGIN, [end, *_mine(claim), start], claim, start)


def give_up(claim: Claim) -> None:
    """What was begun has failed, and its process lives."""
    statements.execute(_GIVE_UP, _mine(claim))


def advance(claim: Claim, start: int, end: int) -> None:
    """Inside the transaction of the effects: from `start` to `end`, or `Fenced`."""
    assert connection.in_atomic_block
    _update(_ADVANCE, [end, *_mine(claim), start], claim, start)


def position(claim: Claim) -> int | None:
    """Where the claim stands; None if it is somebody else's by now."""
    rows = statements.fetch(_POSITION, _mine(claim))
    return int(rows[0][0]) if rows else None


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
