"""What compaction keeps and what it drops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.compaction import Compactor
from mqcore.wire.batches import DELETE_HORIZON, HEADER_BYTES, TRANSACTIONAL, read_header
from mqcore.wire.records import Record, build_batch, read_records
from tests.unit.mqcore.log.compacting import CONFIG, compact, left, log_of, records
from tests.unit.mqcore.log.helpers import LastSequences, append, batch, open_log, poisoned, stored, with_crc
from tests.unit.mqcore.log.searches import offset_for_time


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    log = log_of(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2"))
    assert compact(log) == 5
    assert left(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert (log.start_offset, log.end_offset) == (0, 5)


def test_single_records_are_dropped_from_batches_of_every_codec() -> None:
    for codec in range(5):
        log = open_log(MemoryDisk(), CONFIG)
        data = batch([b"1", b"2", b"3", b"4"], keys=[b"a", b"b", b"a", b"c"], codec=codec, timestamp=77)
        append(log, data, epoch=3)
        append(log, batch([b"5"], keys=[b"c"]), epoch=3)
        log.roll(0)
        before = {record.offset: record for record in records(log)}
        compact(log)
        assert left(log) == [(1, "b", "2"), (2, "a", "3"), (4, "c", "5")]
        assert all(before[record.offset] == record for record in records(log))
        header = read_header(stored(log)[0])
        assert (header.base_offset, header.last_offset, header.leader_epoch, header.codec) == (0, 3, 3, codec)


def test_a_batch_that_loses_no_record_is_copied_byte_for_byte() -> None:
    log = log_of(("a", "1"), ("b", "1"))
    before = stored(log)
    compact(log)
    assert stored(log) == before


def test_the_active_segment_and_records_above_the_limit_are_not_compacted() -> None:
    log = log_of(*[("a", "x" * 200)] * 6)
    append(log, batch([b"active"], keys=[b"a"]))
    bases = log.segments.bases
    before = stored(log)
    limit = bases[2]
    assert compact(log, limit=limit) == limit
    assert [record.offset for record in records(log)] == list(range(limit - 1, 7))
    assert stored(log)[-3:] == before[-3:]
    compact(log, limit=limit - 1)
    assert [record.offset for record in records(log)] == list(range(limit - 1, 7))


def test_a_record_of_the_dirty_part_replaces_one_of_the_clean_part() -> None:
    log = log_of(("a", "1"), ("b", "1"))
    cleaned = compact(log)
    append(log, batch([b"2"], keys=[b"a"]))
    log.roll(0)
    assert compact(log, first_dirty=cleaned) == 3
    assert left(log) == [(1, "b", "1"), (2, "a", "2")]


def test_records_without_a_key_are_dropped() -> None:
    log = open_log(MemoryDisk(), CONFIG)
    append(log, batch([b"old"]))
    append(log, batch([b"new"], keys=[b"a"]))
    log.roll(0)
    compact(log)
    assert left(log) == [(1, "a", "new")]


def test_a_tombstone_removes_older_values_at_once_and_itself_after_delete_retention() -> None:
    log = log_of(("a", "1"), ("b", "1"), ("a", None))
    compact(log, now_ms=5000)
    assert left(log) == [(1, "b", "1"), (2, "a", None)]
    header = read_header(stored(log)[1])
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == 6000
    assert records(log)[1].timestamp == 1000  # unchanged, although the base timestamp has changed
    append(log, batch([b"1"], keys=[b"c"]))
    log.roll(0)
    compact(log, now_ms=5999, first_dirty=3)
    assert left(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    append(log, batch([b"2"], keys=[b"c"]))
    log.roll(0)
    compact(log, now_ms=6000, first_dirty=4)
    assert left(log) == [(1, "b", "1"), (4, "c", "2")]


def test_a_tombstone_beyond_a_full_key_map_stays_until_a_run_removes_its_older_values() -> None:
    log = log_of(("a", "old"), ("b", "1"), ("c", "1"), ("a", None), ("d", "1"))
    log.reconfigure(replace(CONFIG, segment_bytes=1 << 20, delete_retention_ms=0))
    for now_ms in (10, 20, 30):  # each run begins at 0, as after a crash that lost the cleaner checkpoint
        assert compact(log, now_ms=now_ms, keys_max=2) == 2
        assert left(log) == [(0, "a", "old"), (1, "b", "1"), (2, "c", "1"), (3, "a", None), (4, "d", "1")]
    assert compact(log, now_ms=40, first_dirty=2, keys_max=2) == 4
    assert left(log) == [(1, "b", "1"), (2, "c", "1"), (3, "a", None), (4, "d", "1")]
    append(log, batch([b"1"], keys=[b"e"]))
    log.roll(0)
    compact(log, now_ms=50, first_dirty=4)
    assert left(log) == [(1, "b", "1"), (2, "c", "1"), (4, "d", "1"), (5, "e", "1")]


def test_an_infinite_delete_retention_keeps_tombstones() -> None:
    log = log_of(("a", "1"), ("a", None), config=replace(CONFIG, delete_retention_ms=2**63 - 1))
    compact(log, now_ms=10**12)
    assert left(log) == [(1, "a", None)]
    compact(log, now_ms=10**13)
    assert left(log) == [(1, "a", None)]


def test_a_tombstone_of_a_batch_that_replaces_nothing_is_never_dropped() -> None:
    """A batch of a transaction that may have been aborted."""
    log = open_log(MemoryDisk(), replace(CONFIG, delete_retention_ms=0))
    append(log, batch([b"committed"], keys=[b"a"]))
    append(
        log,
        build_batch(
            [Record(0, 1, b"a", None)], producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
        ),
    )
    append(log, batch([b"1"], keys=[b"b"]))
    log.roll(0)
    for now_ms in (10, 20, 30):
        compact(log, now_ms=now_ms)
        assert left(log) == [(0, "a", "committed"), (1, "a", None), (2, "b", "1")]


def test_a_batch_that_becomes_unreadable_halfway_replaces_nothing() -> None:
    log = log_of(("a", "good"))
    bad = batch([b"new", b"cut"], keys=[b"a", b"b"])
    append(log, with_crc(bad[:-1] + b"\x02"))  # announces a header after the last byte
    append(log, batch([b"1"], keys=[b"c"]))
    log.roll(0)
    compact(log)
    assert read_header(stored(log)[0]).records_count == 1
    assert [record.value for record in read_records(stored(log)[0])] == [b"good"]


LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("base", "timestamp"), [(MOST, MOST + 5), (MOST, 2 * MOST), (LEAST, MOST), (LEAST, 2), (-1, LEAST - 1), (5, LEAST)]
)
@pytest.mark.parametrize("horizon", [False, True])
def test_timestamps_that_overflow_64_bits_are_compacted_as_clients_read_them(
    base: int, timestamp: int, horizon: bool
) -> None:
    """Clients add the delta to the base timestamp in 64 bits, so the sum wraps."""
    log = open_log(MemoryDisk(), CONFIG)
    keys = [b"a", b"b", b"c"]
    values = [b"superseded", b"1", None if horizon else b"1"]
    found = [Record(at, timestamp, key, value) for at, (key, value) in enumerate(zip(keys, values, strict=True))]
    data = poisoned(found, base)
    append(log, data)
    append(log, batch([b"2"], keys=[b"a"]))
    log.roll(0)
    compact(log, now_ms=1000)
    wrapped = (timestamp + 2**63) % 2**64 - 2**63
    assert [(r.offset, r.timestamp) for r in records(log)] == [(1, wrapped), (2, wrapped), (3, 1000)]
    assert bool(read_header(stored(log)[0]).attributes & DELETE_HORIZON) is horizon
    assert offset_for_time(log, 1000, limit=4) is not None


def test_compaction_leaves_no_gap_between_two_segments() -> None:
    log = log_of(*[("a", "x" * 100)] * 20)
    compact(log)
    assert left(log) == [(19, "a", "x" * 100)]
    wanted = left(log)
    log._disk.crash("kill")  # type: ignore[attr-defined]
    again = open_log(log._disk, CONFIG)
    assert again.end_offset == 20
    assert left(again) == wanted


def test_the_last_batch_of_each_active_producer_stays_even_if_it_is_empty() -> None:
    disk, observer = MemoryDisk(), LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for producer in (1, 2, 1, 3):
        append(log, batch([b"%d" % producer], keys=[b"same"], producer=producer, sequence=10 * producer))
    append(log, batch([b"last"], keys=[b"same"]))
    log.roll(0)
    compact(log)
    kept = [read_header(data) for data in stored(log)]
    assert [(header.base_offset, header.producer_id, header.records_count) for header in kept] == [
        (1, 2, 0), (2, 1, 0), (3, 3, 0), (4, -1, 1),
    ]  # fmt: skip
    again = LastSequences()
    for name in disk.names("orders-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"orders-0/{name}")
    open_log(disk, CONFIG, observer=again)
    assert again.last == observer.last


def test_an_expired_producer_leaves_no_batch() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(CONFIG, segment_bytes=1 << 20))
    for producer in range(20):
        append(log, batch([b"1"], keys=[b"same"], producer=producer, sequence=0))
    append(log, batch([b"last"], keys=[b"same"]))
    log.roll(0)
    Compactor(disk, log, first_dirty=0, limit=21, now_ms=0, active_producers={7, 19}).run()
    kept = [read_header(data) for data in stored(log)]
    assert [(header.producer_id, header.records_count) for header in kept] == [(7, 0), (19, 0), (-1, 1)]
    assert [header.max_timestamp for header in kept] == [1000] * 3  # from which a producer's age is computed


def test_small_cleaned_segments_are_merged_and_their_originals_removed() -> None:
    disk = MemoryDisk()
    log = log_of(*[(str(number % 4), "x" * 100) for number in range(40)], disk=disk)
    before = len(log.segments.items)
    for _ in range(4):
        compact(log)
    assert len(log.segments.items) < before / 3
    assert len([name for name in disk.names("orders-0") if name.endswith(".log")]) == len(log.segments.items)
    assert [offset for offset, _, _ in left(log)] == [36, 37, 38, 39]
    assert log.size_bytes == sum(segment.size for segment in log.segments.items)


def test_transactional_records_replace_nothing_and_control_batches_stay() -> None:
    log = open_log(MemoryDisk(), CONFIG)
    append(log, batch([b"committed"], keys=[b"a"]))
    maybe_aborted = build_batch(
        [Record(0, 1, b"a", b"?")], producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    append(log, maybe_aborted)
    append(log, build_batch([Record(0, 1, b"\0\0\0\1", b"")], producer_id=1, attributes=TRANSACTIONAL | 0x20))
    append(log, batch([b"1"], keys=[b"b"]))
    log.roll(0)
    compact(log)
    assert [record.offset for record in records(log)] == [0, 1, 2, 3]


def test_unreadable_batches_are_copied_unchanged() -> None:
    log = open_log(MemoryDisk(), CONFIG)
    good = batch([b"1"] * 3, keys=[b"a"] * 3)
    bad = with_crc(good[:HEADER_BYTES] + bytes([255]) * (len(good) - HEADER_BYTES))
    kept = append(log, bad)
    append(log, batch([b"2"], keys=[b"a"]))
    log.roll(0)
    compact(log)
    assert stored(log)[0] == kept
