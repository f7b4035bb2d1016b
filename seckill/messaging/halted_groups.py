"""Resuming a group after a log has lost records.

A group halts in a partition whose log is not the one that it has read. An operator decides where it continues, once it
is clear what happened to the broker. The default is the start of the log: handlers ignore what they have already
processed, so no remaining record is missed. The report compares tables with topics and names the lost records.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from seckill.audit.trail import audited
from seckill.config.kafka_clients import client_options
from seckill.messaging import log_bounds
from seckill.messaging.models import ConsumerOffset


class ResumeRefused(Exception):
    """The group is not halted there, or cannot continue at that offset; the text says which."""


class ResumedOffset(NamedTuple):
    was: int
    now: int


def list_halted() -> list[ConsumerOffset]:
    """The partitions where a group has halted, with the reasons."""
    return list(ConsumerOffset.objects.exclude(halted="").order_by("group", "topic", "partition"))


def resume(
    bootstrap_servers: str, group: str, topic: str, partition: int, *, at: int | None = None, because: str
) -> ResumedOffset:
    """Let the group continue; its consumer notices within seconds."""
    row = ConsumerOffset.objects.exclude(halted="").filter(group=group, topic=topic, partition=partition).first()
    if row is None:
        raise ResumeRefused(f"{group} is not halted in {topic}-{partition}; see `seckill offsets list`")
    start, end = _bounds(bootstrap_servers, TopicPartition(topic, partition))
    now = start if at is None else at
    if not start <= now <= end:
        raise ResumeRefused(f"{topic}-{partition} has offsets {start} to {end}; {now} is outside")
    with audited("offsets resume", f"{group} {topic}-{partition}", at=now, was=row.next_offset, because=because):
        row_as_read = ConsumerOffset.objects.filter(id=row.id, next_offset=row.next_offset).exclude(halted="")
        changed = row_as_read.update(
            next_offset=now,
            epoch=row.epoch + 1,
            halted="",
            last_record="",
            attempting_until=0,
            crash_count=0,
            single_step_until=0,
        )
        if not changed:
            raise ResumeRefused(f"{group} has already continued in {topic}-{partition}")
    return ResumedOffset(row.next_offset, now)


def _bounds(bootstrap_servers: str, partition: TopicPartition) -> tuple[int, int]:
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        starts, ends = log_bounds.start_offsets(admin, [partition]), log_bounds.end_offsets(admin, [partition])
    finally:
        admin.close()
    if partition not in starts or partition not in ends:
        raise ResumeRefused(f"the broker does not answer for {partition.topic}-{partition.partition}")
    return starts[partition], ends[partition]
