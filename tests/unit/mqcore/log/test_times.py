"""From timestamps to offsets."""

from __future__ import annotations

from random import Random

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.config import LogConfig
from mqcore.log.log import Log, TimedOffset
from mqcore.wire.batches import HEADER_BYTES, read_header, stamp_append_time
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.log.bench import append, batch, open_log, place, stored, with_crc

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=60)


def add(log: Log, timestamps: list[int], codec: int = 0, epoch: int = 0) -> None:
    records = [Record(index, timestamp, None, b"v" * 9) for index, timestamp in enumerate(timestamps)]
    append(log, build_batch(records, codec=codec), epoch=epoch)


def test_the_first_record_that_is_not_older_is_found_inside_of_its_batch() -> None:
    log = open_log(MemoryDisk())
    add(log, [100, 200, 300], codec=1)
    add(log, [400, 500], codec=3, epoch=7)
    assert log.offset_for_time(0, limit=5) == (100, 0, 0)
    assert log.offset_for_time(200, limit=5) == (200, 1, 0)
    assert log.offset_for_time(201, limit=5) == (300, 2, 0)
    assert log.offset_for_time(401, limit=5) == (500, 4, 7)
    assert log.offset_for_time(501, limit=5) is None


def test_records_at_or_above_the_limit_or_below_the_start_are_not_seen() -> None:
    log = open_log(MemoryDisk())
    add(log, [100, 200])
    add(log, [300])
    assert log.offset_for_time(250, limit=2) is None
    log.advance_start(1)
    assert log.offset_for_time(0, limit=3) == (200, 1, 0)


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
                assert log.offset_for_time(timestamp, limit=limit) == wanted
            largest = max(entry.timestamp for entry in below)
            first = next(entry for entry in below if entry.timestamp == largest)
            found = log.max_timestamp(limit=limit)
            assert found == first
        if not again:
            log.close()
            log = open_log(disk, CONFIG, clean=True)


def test_an_empty_log_has_no_largest_timestamp() -> None:
    log = open_log(MemoryDisk())
    assert log.max_timestamp(limit=0) is None
    append(log)
    assert log.max_timestamp(limit=0) is None


def test_records_with_append_time_all_have_that_of_their_batch() -> None:
    log = open_log(MemoryDisk())
    data = batch([b"a", b"b"], timestamp=5)
    place(data, 0)
    header = stamp_append_time(data, read_header(data), 999)
    log.append(data, [header], 999)
    assert log.offset_for_time(998, limit=2) == (999, 0, 0)
    assert log.max_timestamp(limit=2) == (999, 0, 0)


def test_a_batch_whose_records_are_nonsense_is_answered_as_a_whole() -> None:
    log = open_log(MemoryDisk())
    good = batch([b"a"] * 3, timestamp=50)
    bad = with_crc(good[:HEADER_BYTES] + bytes([255]) * (len(good) - HEADER_BYTES))
    append(log, bad)
    assert log.offset_for_time(51, limit=3) == (52, 0, 0)
