"""Searches for offsets by timestamp."""

from __future__ import annotations

from random import Random

import pytest

from mqcore.disk.memory import MemoryDisk, MemoryFile
from mqcore.log.log import Log
from mqcore.log.times import TimedOffset, search_time
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import HEADER_BYTES, read_header, stamp_append_time
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.log.helpers import DIRECTORY, append, batch, open_log, place, stored, with_crc
from tests.unit.mqcore.log.searches import max_timestamp, offset_for_time

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=60)


def add(log: Log, timestamps: list[int], codec: int = 0, epoch: int = 0) -> None:
    records = [Record(index, timestamp, None, b"v" * 9) for index, timestamp in enumerate(timestamps)]
    append(log, build_batch(records, codec=codec), epoch=epoch)


def test_the_first_record_that_is_not_older_is_found_inside_its_batch() -> None:
    log = open_log(MemoryDisk())
    add(log, [100, 200, 300], codec=1)
    add(log, [400, 500], codec=3, epoch=7)
    assert offset_for_time(log, 0, limit=5) == (100, 0, 0)
    assert offset_for_time(log, 200, limit=5) == (200, 1, 0)
    assert offset_for_time(log, 201, limit=5) == (300, 2, 0)
    assert offset_for_time(log, 401, limit=5) == (500, 4, 7)
    assert offset_for_time(log, 501, limit=5) is None


def test_records_at_or_above_the_limit_or_below_the_start_are_not_seen() -> None:
    log = open_log(MemoryDisk())
    add(log, [100, 200])
    add(log, [300])
    assert offset_for_time(log, 250, limit=2) is None
    log.advance_start(1)
    assert offset_for_time(log, 0, limit=3) == (200, 1, 0)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_timestamps_is_searched_as_a_plain_walk_would(seed: int) -> None:
    random, disk = Random(seed), MemoryDisk()
    log = open_log(disk, CONFIG)
    truth: list[TimedOffset] = []
    for _ in range(40):
        timestamps = [random.randrange(1, 300) for _ in range(random.randrange(1, 5))]
        truth += [TimedOffset(ts, log.end_offset + at, 0) for at, ts in enumerate(timestamps)]
        add(log, timestamps)
    first_end = read_header(stored(log)[0]).next_offset
    for again in range(2):
        for limit in (log.end_offset, log.segments.items[2].base_offset, first_end):
            below = [entry for entry in truth if entry.offset < limit]
            for timestamp in range(0, 302, 7):
                wanted = next((entry for entry in below if entry.timestamp >= timestamp), None)
                assert offset_for_time(log, timestamp, limit=limit) == wanted
            largest = max(entry.timestamp for entry in below)
            first = next(entry for entry in below if entry.timestamp == largest)
            found = max_timestamp(log, limit=limit)
            assert found == first
        if not again:
            log.close()
            log = open_log(disk, CONFIG, clean=True)


def test_an_empty_log_has_no_largest_timestamp() -> None:
    log = open_log(MemoryDisk())
    assert max_timestamp(log, limit=0) is None
    append(log)
    assert max_timestamp(log, limit=0) is None


def test_with_append_time_all_records_have_the_timestamp_of_their_batch() -> None:
    log = open_log(MemoryDisk())
    data = batch([b"a", b"b"], timestamp=5)
    place(data, 0)
    header = stamp_append_time(data, read_header(data), 999)
    log.append(data, [header], 999)
    assert offset_for_time(log, 998, limit=2) == (999, 0, 0)
    assert max_timestamp(log, limit=2) == (999, 0, 0)


def test_a_batch_with_invalid_records_is_found_by_its_header() -> None:
    log = open_log(MemoryDisk())
    good = batch([b"a"] * 3, timestamp=50)
    bad = with_crc(good[:HEADER_BYTES] + bytes([255]) * (len(good) - HEADER_BYTES))
    append(log, bad)
    assert offset_for_time(log, 51, limit=3) == (52, 0, 0)


class CountingDisk(MemoryDisk):
    """A disk that counts the bytes read from each file."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0
        self.whole: list[str] = []

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = super().open(path, create=create)
        disk, read = self, file.read

        class Counted(MemoryFile):
            __slots__ = ()

            def read(self, position: int, length: int) -> bytes:
                found = read(position, length)
                disk.read_bytes += len(found)
                return found

        file.__class__ = Counted
        return file

    def read_whole(self, path: str) -> bytes:
        self.whole.append(path)
        return super().read_whole(path)


def long_log(disk: MemoryDisk, batches: int = 2000) -> Log:
    log = open_log(disk, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for number in range(batches):
        add(log, [1000 + number])
    return log


def test_a_search_by_time_after_a_start_loads_the_indexes_of_only_one_sealed_segment() -> None:
    disk = CountingDisk()
    log = long_log(disk)
    log.close()
    log = open_log(disk, log.config, clean=True)
    assert len(log.segments.items) > 6
    disk.whole.clear()
    assert offset_for_time(log, 2010, limit=2000) == (2010, 1010, 0)
    assert len({path.partition(".")[0] for path in disk.whole}) == 1
    disk.whole.clear()
    assert max_timestamp(log, limit=2000) == (2999, 1999, 0)
    assert offset_for_time(log, 5000, limit=2000) is None
    assert disk.whole == []


def test_the_largest_timestamp_below_a_limit_is_found_without_reading_the_segment() -> None:
    """With flush.messages=1 the newest batch is above the limit most of the time."""
    disk = CountingDisk()
    log = open_log(disk, LogConfig(index_interval_bytes=500))
    for number in range(2000):
        add(log, [1000 + number])
    for limit in (1, 7, 1000, 1999):
        disk.read_bytes = 0
        assert max_timestamp(log, limit=limit) == (1000 + limit - 1, limit - 1, 0)
        assert disk.read_bytes < 200_000 < log.size_bytes * 2
    assert disk.read_bytes < log.size_bytes


def test_a_search_runs_in_steps_and_survives_retention() -> None:
    disk = MemoryDisk()
    log = long_log(disk)
    log.sync()
    search = search_time(log.segments.items, 2990, log.start_offset, 2000)
    next(search)
    log.advance_start(1500)
    log.segments.release_sealed(2000)
    log.apply_retention(0, limit=1500)
    steps = 0
    while True:
        try:
            next(search)
            steps += 1
        except StopIteration as end:
            assert end.value == (2990, 1990, 0)
            break
    assert steps > 1


@pytest.mark.parametrize("tail", [b"", b"x", b"\xff" * 12, b"\0" * 24])
def test_a_time_index_with_a_damaged_end_is_read_completely(tail: bytes) -> None:
    disk = MemoryDisk()
    log = long_log(disk)
    log.close()
    path = next(f"{DIRECTORY}/{name}" for name in disk.names(DIRECTORY) if name.endswith(".timeindex"))
    disk.replace(path, disk.read_whole(path) + tail)
    log = open_log(disk, log.config, clean=True)
    first_end = log.segments.bases[1]
    assert log.segments.items[0].largest == (1000 + first_end - 1, first_end - 1)


def test_random_timestamps_below_any_limit_are_found_as_by_a_plain_walk() -> None:
    for seed in range(6):
        random = Random(seed)
        log = open_log(MemoryDisk(), LogConfig(segment_bytes=3000, index_interval_bytes=150))
        values = [random.choice([5, random.randrange(1, 50), number]) for number in range(300)]
        for value in values:
            add(log, [value])
        for limit in range(1, 300, 3):
            for start in (0, limit // 2):
                log.start_offset = start
                largest = max(values[start:limit])
                assert max_timestamp(log, limit=limit) == (largest, values.index(largest, start), 0), (seed, limit)
