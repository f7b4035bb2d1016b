"""Helpers for tests of the cleaner: a topic like `__consumer_offsets`, and what a reader finds in it."""

from __future__ import annotations

import asyncio

from mqcore.coordination.partition_journal import replay
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.partition import Partition
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.folder import DataFolder

OFFSETS_TOPIC = {"cleanup.policy": "compact", "segment.bytes": "4096", "file.delete.delay.ms": "0"}


def commit(folder: DataFolder, partition: Partition, rounds: int, groups: int = 3) -> None:
    """Commit like a coordinator: one record per commit, with the same few keys again and again."""
    for number in range(rounds):
        key, value = b"group-%d" % (number % groups), b"offset %d" % number
        partition.append_records([Record(0, folder.clock.wall_ms(), key, value)])


def latest(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {
        record.key: record.value for record in replay(partition, partition.log.start_offset, partition.log.end_offset)
    }


async def one_turn(folder: DataFolder) -> None:
    """One turn of the event loop, in which the pauses of the cleaner end."""
    folder.clock.advance(0)
    await asyncio.sleep(0)


def cleaner_of(folder: DataFolder) -> Cleaner:
    return folder.cleaner(buffer_bytes=1 << 20)
