"""Compaction that dies at every single call to the disk, and goes on in the next life."""

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
from mqcore.log.config import LogConfig
from mqcore.log.examination import first_bad
from mqcore.log.log import Log
from mqcore.partitions.cleaner import BYTES_PER_KEY, Cleaner
from mqcore.wire.records import Record, read_records
from tests.unit.mqcore.log.bench import append, batch, open_log, stored
from tests.unit.mqcore.partitions.stage import NAME
from tests.unit.mqcore.partitions.test_hosted import Folder

CONFIG = LogConfig(compact=True, delete=False, segment_bytes=700, index_interval_bytes=100, min_cleanable_dirty_ratio=0)


def filled(seed: int) -> tuple[MemoryDisk, Log]:
    """Several segments of few keys, all of it durable; the seed is that of the disk's losses."""
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
def test_a_crash_at_any_call_loses_no_newest_record_and_brings_back_no_deleted_one(
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
        assert first_bad(disk, "orders-0") is None  # no hole, and no segment that was replaced is left
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
    """Its indexes have several sectors, of which a power loss may leave the first."""
    disk = MemoryDisk(seed)
    log = open_log(disk, LONG)
    for number in range(300):
        append(log, batch([b"v"], keys=[b"%d" % (number % 250)], timestamp=1000 + number))
    log.roll(0)
    log.sync()
    return disk, log


def test_an_index_that_a_power_loss_leaves_of_a_compacted_segment_is_whole() -> None:
    """Retention and lookups by time believe it: the log itself is durable and is not read again."""
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
        assert again.offset_for_time(1299, limit=300) == (1299, 299, 0), seed
    assert found > 5


def test_a_run_makes_enough_calls_to_be_worth_enumerating() -> None:
    assert CALLS > 30


# --- many runs with a full key map, tombstones that expire at once ---------------------------------------------------

Live = dict[bytes | None, bytes | None]


def live(found: list[Record]) -> Live:
    """What a consumer that reads everything knows at the end: the keys that have a value."""
    known = {record.key: record.value for record in found}
    return {key: value for key, value in known.items() if value is not None}


def run_to_the_end(disk: MemoryDisk, log: Log, runs: int) -> None:
    """Runs with room for three keys, as the cleaner makes them: the first dirty offset is kept in a file."""
    log.reconfigure(replace(CONFIG, segment_bytes=1200, delete_retention_ms=0))
    checkpoint = CheckpointFile(disk, CLEANER_OFFSETS)
    for now_ms in range(runs):
        first_dirty = checkpoint.read().get(NAME, 0)
        compactor = Compactor(disk, log, first_dirty=first_dirty, limit=log.end_offset, now_ms=now_ms * 10, most_keys=3)
        compactor.run()
        checkpoint.write({NAME: compactor.cleaned_to})


def calls_of_all_runs() -> int:
    disk, log = filled(1)
    before = disk.changes
    run_to_the_end(disk, log, 12)
    return disk.changes - before


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_in_any_of_many_runs_with_a_full_key_map_brings_no_deleted_key_back(
    kind: Literal["kill", "power"],
) -> None:
    calls = calls_of_all_runs()
    assert calls > 200
    moments: tuple[When, ...] = ("before", "during", "after")
    for nth in range(1 + (kind == "power"), calls + 1, 2):
        disk, log = filled(nth)
        wanted, end = live(records(log)), log.end_offset
        disk.crash_at(nth, moments[nth % 3])
        with pytest.raises(Crashed):
            run_to_the_end(disk, log, 12)
        disk.crash(kind)
        again = open_log(disk, CONFIG, recovery_point=end)
        assert live(records(again)) == wanted, nth
        run_to_the_end(disk, again, 12)
        assert live(records(again)) == wanted, nth
    cleaned_to = CheckpointFile(disk, CLEANER_OFFSETS).read()[NAME]
    assert cleaned_to == again.segments.bases[-1]
    assert len([record for record in records(again) if record.offset < cleaned_to]) <= 5  # one a key


# --- a broker's life with compacted topics ---------------------------------------------------------------------------

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1024",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0",
}


class CompactedLife:
    """One compacted partition whose topic is deleted and made again, and what its readers must find."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.folder = Folder(seed)
        self.topic = 0
        self.wanted: Live = {}
        self.make()

    def make(self) -> None:
        self.topic += 1
        self.wanted = {}
        self.open()

    def open(self) -> None:
        """As a start does; the cleaner begins with it."""
        self.partition = self.folder.open(UUID(int=self.topic), SETTINGS)
        self.cleaner = Cleaner(self.folder.disk, self.folder.hosted, self.folder.clock, buffer_bytes=4 * BYTES_PER_KEY)

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

    def make_again(self) -> None:
        self.folder.hosted.remove(NAME)
        self.make()

    def kill(self) -> None:
        self.folder.crash()
        self.open()

    def restart(self) -> None:
        self.folder.hosted.checkpoint()
        assert self.folder.hosted.close()
        self.folder.begin(clean=True)
        self.open()

    def checkpoint(self) -> None:
        self.folder.hosted.checkpoint()

    def found(self) -> list[Record]:
        return list(replay(self.partition, self.partition.log.start_offset, self.partition.log.end_offset))


@pytest.mark.parametrize("seed", range(12))
def test_readers_of_a_compacted_topic_find_what_was_written_last_whatever_happens_in_between(seed: int) -> None:
    life = CompactedLife(seed)
    steps = [life.write] * 6 + [life.compact] * 5 + [life.make_again, life.kill, life.restart, life.checkpoint]
    for number in range(150):
        life.random.choice(steps)()
        assert live(life.found()) == life.wanted, number
    life.partition.log.roll(0)
    while life.partition.cleaned_to < life.partition.log.end_offset:  # compaction has not stopped
        before = life.partition.cleaned_to
        life.compact()
        assert life.partition.cleaned_to > before
    assert live(life.found()) == life.wanted
    assert len(life.found()) < 40
