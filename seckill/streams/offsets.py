"""How far a group has read: rows claimed on assignment and advanced, fenced by epoch, with the effects of a batch."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection


class Fenced(Exception):
    """Somebody else has claimed the partition, or the batch does not begin where the last one ended."""


class Claim(NamedTuple):
    """The right to work on a partition, until somebody claims it anew."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int
    group: str
    epoch: int
    next_offset: int


_CLAIM = """
INSERT INTO streams_offset (cluster_id, topic_id, topic, partition, consumer_group, epoch, next_offset)
VALUES (%s, %s, %s, %s, %s, 1, %s)
ON CONFLICT (consumer_group, cluster_id, topic_id, partition)
DO UPDATE SET epoch = streams_offset.epoch + 1
RETURNING epoch, next_offset
"""

_ADVANCE = """
UPDATE streams_offset SET next_offset = %s
WHERE consumer_group = %s AND cluster_id = %s AND topic_id = %s AND partition = %s AND epoch = %s AND next_offset = %s
"""


def claim(cluster_id: str, topic_id: str, topic: str, partition: int, group: str, log_start: int) -> Claim:
    """Take the partition over; at the very first time it begins at the log start. Whoever had it is fenced."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [cluster_id, topic_id, topic, partition, group, log_start])
        epoch, next_offset = cursor.fetchone()
    return Claim(cluster_id, topic_id, topic, partition, group, epoch, next_offset)


def advance(claim: Claim, start: int, end: int) -> None:
    """Inside the transaction of the effects: from `start` to `end`, or `Fenced`."""
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(
            _ADVANCE,
            [end, claim.group, claim.cluster_id, claim.topic_id, claim.partition, claim.epoch, start],
        )
        if cursor.rowcount != 1:
            raise Fenced(f"{claim.group} {claim.topic}-{claim.partition}: epoch {claim.epoch} at {start}")
