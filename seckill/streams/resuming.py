"""The verb: go on after a log has lost records. A group that finds another log than it has read halts in that
partition; an operator says where it goes on, once it is known what happened to the broker.

By default that is the log's start: every reader drops what it has had, so nothing that is left in the log is missed.
What the log has lost is not in it; the report compares the tables with the topics and names it.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from seckill.audit.trail import acting
from seckill.streams import bounds
from seckill.streams.models import ConsumerOffset


class Refused(Exception):
    """Nothing is halted there, or it cannot go on there; the text says why."""


class Resumed(NamedTuple):
    was: int
    now: int


def halted() -> list[ConsumerOffset]:
    """The partitions in which groups do not go on, and why."""
    return list(ConsumerOffset.objects.exclude(halted="").order_by("group", "topic", "partition"))


def resume(
    bootstrap_servers: str, group: str, topic: str, partition: int, *, at: int | None = None, because: str
) -> Resumed:
    """The group's consumer takes it up within seconds."""
    row = ConsumerOffset.objects.exclude(halted="").filter(group=group, topic=topic, partition=partition).first()
    if row is None:
        raise Refused(f"{group} is not halted in {topic}-{partition}; `seckill offsets list` shows where groups are")
    start, end = _bounds(bootstrap_servers, TopicPartition(topic, partition))
    now = start if at is None else at
    if not start <= now <= end:
        raise Refused(f"{topic}-{partition} has offsets {start} to {end}, got {now}")
    with acting("offsets resume", f"{group} {topic}-{partition}", at=now, was=row.next_offset, because=because):
        mine = ConsumerOffset.objects.filter(id=row.id, next_offset=row.next_offset).exclude(halted="")
        changed = mine.update(
            next_offset=now, epoch=row.epoch + 1, halted="", last_record="", trying_to=0, deaths=0, careful_to=0
        )
        if not changed:
            raise Refused(f"{group} has gone on in {topic}-{partition} meanwhile")
    return Resumed(row.next_offset, now)


def _bounds(bootstrap_servers: str, partition: TopicPartition) -> tuple[int, int]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        starts, ends = bounds.starts(admin, [partition]), bounds.ends(admin, [partition])
    finally:
        admin.close()
    if partition not in starts or partition not in ends:
        raise Refused(f"the log of {partition.topic}-{partition.partition} does not answer")
    return starts[partition], ends[partition]
