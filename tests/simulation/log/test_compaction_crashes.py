"""Compaction that crashes at every single call to the disk, and continues after the restart."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from itertools import product
from random import Random
from typing import Literal
from uuid import UUID

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.log.checkpoints import CLEANER_OFFSETS, CheckpointFile
from mqcore.log.compaction import Compactor
from mqcore.log.examination import open_segments
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.log.validity import find_first_invalid
from mqcore.partitions.cleaner import KEY_BYTES
from mqcore.wire.records import Record, read_records
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored
from tests.unit.mqcore.log.searches import offset_for_time
from tests.unit.mqcore.partitions.folder import DataFolder
from tests.unit.mqcore.partitions.helpers import NAME

CONFIG = LogConfig(compact=True, delete=False, segment_bytes=700, index_interval_bytes=100, min_cleanable_dirty_ratio=0)


def filled(seed: int) -> tuple[MemoryDisk, Log]:
    """Several durable segments with few keys. The seed decides what the disk loses later."""
    random, disk = Random(1), MemoryDisk(seed)
    log = open_log(disk, CONFIG)
    for number in range(30):
        keys = [b"key-%d" % random.randrange(5) for _ in range(random.randrange(1, 4))]
        values = [None if random.random() < 0.2 else b"%d" % number for _ in keys]
        append(log, batch(values, keys=keys, producer=number % 3, sequence=number * 10))
    log.sync()
    return disk, log


def records(log: Log) -> list[Record]:
    return [record for data in stored(log) for record in read_records(data)]


def newest(found: list[Record]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in found}


def compact(disk: MemoryDisk, log: Log) -> None:
    log.reconfigure(replace(CONFIG, segment_bytes=1800))  # several originals make one cleaned segment
    Compactor(disk, log, first_dirty=0, limit=log.end_offset, now_ms=0).run()


def calls_of_a_whole_run() -> int:
    disk, log = filled(1)
    before = disk.changes
    compact(disk, log)
    return disk.changes - before


CALLS = calls_of_a_whole_run()


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_at_any_call_loses_no_newest_record_and_restores_no_deleted_one(
    when: When, kind: Literal["kill", "power"]
) -> None:
    for nth, seed in product(range(1, CALLS + 1), range(5 if kind == "power" else 1)):
        disk, log = filled(seed)
        before, end = records(log), log.end_offset
        disk.crash_at(nth, when)
        with pytest.raises(Crashed):
            compact(disk, log)
        disk.crash(kind)
        again = open_log(disk, CONFIG, recovery_point=end)
        assert again.end_offset == end
        after = records(again)
        assert newest(after) == newest(before), nth
        assert set(after) <= set(before)
        assert again.recovery.cut_bytes == 0
        assert (
            find_first_invalid(open_segments(disk, "orders-0")).first_invalid is None
        )  # no gap, and no replaced segment is left
        compact(disk, again)
        once_more = records(again)
        assert newest(once_more) == newest(before)
        assert len(once_more) < len(before)
        again.close()
        reopened = open_log(disk, CONFIG, clean=True)
        assert records(reopened) == once_more
        assert not [name for name in disk.names("orders-0") if name.endswith((".cleaned", ".swap"))]


LONG = replace(CONFIG, segment_bytes=1 << 16, index_interval_bytes=1)


def long_log(seed: int) -> tuple[MemoryDisk, Log]:
    """Its indexes have several sectors, and a power loss may keep only the first."""
    disk = MemoryDisk(seed)
    log = open_log(disk, LONG)
    for number in range(300):
        append(log, batch([b"v"], keys=[b"%d" % (number % 250)], timestamp=1000 + number))
    log.roll(0)
    log.sync()
    return disk, log


def test_the_indexes_of_a_compacted_segment_survive_a_power_loss() -> None:
    """Retention and searches by time trust the indexes, because the durable log is not read again."""
    disk, log = long_log(0)
    before = disk.changes
    Compactor(disk, log, first_dirty=0, limit=300, now_ms=0).run()
    calls, index = disk.changes - before, f"orders-0/{0:020}.timeindex"
    whole, found = disk.read_whole(index), 0
    for seed in range(calls + 20):
        disk, log = long_log(seed)
        original = disk.read_whole(index)
        disk.crash_at(1 + seed, "after")
        with contextlib.suppress(Crashed):
            Compactor(disk, log, first_dirty=0, limit=300, now_ms=0).run()
        disk.crash("power")
        again = open_log(disk, LONG, recovery_point=300)
        if disk.exists(index):
            assert disk.read_whole(index) in (whole, original), seed
            found += 1
        assert again.segments.items[0].largest == (1299, 299), seed
        assert offset_for_time(again, 1299, limit=300) == (1299, 299, 0), seed
    assert found > 5


def test_a_run_makes_enough_calls_for_the_crash_tests_to_mean_something() -> None:
    assert CALLS > 30


# --- many runs with a full key map, tombstones that expire at once ---------------------------------------------------

Live = dict[bytes | None, bytes | None]


def values_of_live_keys(found: list[Record]) -> Live:
    """The keys that have a value, as a consumer of the whole log knows them."""
    known = {record.key: record.value for record in found}
    return {key: value for key, value in known.items() if value is not None}


def run_to_the_end(disk: MemoryDisk, log: Log, runs: int) -> None:
    """Runs like those of the cleaner, with room for three keys; the first dirty offset is stored in a file."""
    log.reconfigure(replace(CONFIG, segment_bytes=1200, delete_retention_ms=0))
    checkpoint = CheckpointFile(disk, CLEANER_OFFSETS)
    for now_ms in range(runs):
        first_dirty = checkpoint.read().get(NAME, 0)
        compactor = Compactor(disk, log, first_dirty=first_dirty, limit=log.end_offset, now_ms=now_ms * 10, keys_max=3)
        compactor.run()
        checkpoint.write({NAME: compactor.cleaned_to})


def calls_of_all_runs() -> int:
    disk, log = filled(1)
    before = disk.changes
    run_to_the_end(disk, log, 12)
    return disk.changes - before


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_in_any_run_with_a_full_key_map_restores_no_deleted_key(
    kind: Literal["kill", "power"],
) -> None:
    calls = calls_of_all_runs()
    assert calls > 200
    moments: tuple[When, ...] = ("before", "during", "after")
    for nth in range(1 + (kind == "power"), calls + 1, 2):
        disk, log = filled(nth)
        wanted, end = values_of_live_keys(records(log)), log.end_offset
        disk.crash_at(nth, moments[nth % 3])
        with pytest.raises(Crashed):
            run_to_the_end(disk, log, 12)
        disk.crash(kind)
        again = open_log(disk, CONFIG, recovery_point=end)
        assert values_of_live_keys(records(again)) == wanted, nth
        run_to_the_end(disk, again, 12)
        assert values_of_live_keys(records(again)) == wanted, nth
    cleaned_to = CheckpointFile(disk, CLEANER_OFFSETS).read()[NAME]
    assert cleaned_to == again.segments.bases[-1]
    assert len([record for record in records(again) if record.offset < cleaned_to]) <= 5  # one per key


# --- a broker with compacted topics --------------------------------------------------------------------------------

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1024",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0",
}


class CompactedTopic:
    """One compacted partition whose topic is deleted and recreated, and what its readers must find."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.folder = DataFolder(seed)
        self.topic = 0
        self.wanted: Live = {}
        self.create()

    def create(self) -> None:
        self.topic += 1
        self.wanted = {}
        self.open()

    def open(self) -> None:
        """Open the partition as a start does, with the stored cleaner offset."""
        self.partition = self.folder.open(UUID(int=self.topic), SETTINGS)
        self.cleaner = self.folder.cleaner(buffer_bytes=4 * KEY_BYTES)

    def write(self) -> None:
        for _ in range(self.random.randrange(1, 30)):
            key = b"key-%d" % self.random.randrange(12)
            value = None if self.random.random() < 0.3 else b"%d" % self.random.randrange(1000)
            self.partition.append_records([Record(0, self.folder.clock.wall_ms(), key, value)])
            self.wanted.pop(key, None)
            if value is not None:
                self.wanted[key] = value

    def compact(self) -> None:
        self.folder.clock.advance(10)
        asyncio.run(self.cleaner.run_once())

    def recreate(self) -> None:
        self.folder.hosted.remove(NAME)
        self.create()

    def kill(self) -> None:
        self.folder.crash()
        self.open()

    def restart(self) -> None:
        self.folder.durability.write_checkpoints()
        assert self.folder.durability.close()
        self.folder.begin(clean=True)
        self.open()

    def checkpoint(self) -> None:
        self.folder.durability.write_checkpoints()

    def read_all(self) -> list[Record]:
        return list(replay(self.partition, self.partition.log.start_offset, self.partition.log.end_offset))


@pytest.mark.parametrize("seed", range(12))
def test_readers_of_a_compacted_topic_find_the_last_value_of_each_key_after_any_history(seed: int) -> None:
    topic = CompactedTopic(seed)
    steps = [topic.write] * 6 + [topic.compact] * 5 + [topic.recreate, topic.kill, topic.restart, topic.checkpoint]
    for number in range(150):
        topic.random.choice(steps)()
        assert values_of_live_keys(topic.read_all()) == topic.wanted, number
    topic.partition.log.roll(0)
    while topic.partition.cleaned_to < topic.partition.log.end_offset:  # compaction has not stopped
        before = topic.partition.cleaned_to
        topic.compact()
        assert topic.partition.cleaned_to > before
    assert values_of_live_keys(topic.read_all()) == topic.wanted
    assert len(topic.read_all()) < 40
