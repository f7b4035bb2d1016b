"""What compaction keeps, what it drops, and when."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.compaction import Compactor, cleanable
from mqcore.log.config import LogConfig
from mqcore.log.log import Log
from mqcore.wire.batches import DELETE_HORIZON, HEADER_BYTES, TRANSACTIONAL, read_header
from mqcore.wire.records import Record, build_batch, read_records
from tests.unit.mqcore.log.bench import LastSequences, append, batch, open_log, poisoned, stored, with_crc

CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=500,
    index_interval_bytes=50,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


def log_of(*entries: tuple[str, str | None], config: LogConfig = CONFIG, disk: MemoryDisk | None = None) -> Log:
    """One batch for each key and value, all sealed."""
    log = open_log(disk or MemoryDisk(), config)
    for key, value in entries:
        append(log, batch([None if value is None else value.encode()], keys=[key.encode()]))
    log.roll(0)
    return log


def compact(log: Log, *, now_ms: int = 0, first_dirty: int = 0, limit: int | None = None, most_keys: int = 1000) -> int:
    limit = log.end_offset if limit is None else limit
    compactor = Compactor(log._disk, log, first_dirty=first_dirty, limit=limit, now_ms=now_ms, most_keys=most_keys)
    compactor.run()
    return compactor.cleaned_to


def records(log: Log) -> list[Record]:
    return [record for data in stored(log) for record in read_records(data)]


def left(log: Log) -> list[tuple[int, str, str | None]]:
    return [(r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode()) for r in records(log)]


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    log = log_of(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2"))
    assert compact(log) == 5
    assert left(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert (log.start_offset, log.end_offset) == (0, 5)


def test_records_inside_of_a_batch_are_dropped_one_by_one_in_every_codec() -> None:
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


def test_a_batch_that_loses_nothing_stays_byte_for_byte() -> None:
    log = log_of(("a", "1"), ("b", "1"))
    before = stored(log)
    compact(log)
    assert stored(log) == before


def test_the_active_segment_and_what_is_not_below_the_limit_stay_untouched() -> None:
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


# --- tombstones ------------------------------------------------------------------------------------------------------


def test_a_tombstone_drops_its_key_at_once_and_itself_after_delete_retention() -> None:
    log = log_of(("a", "1"), ("b", "1"), ("a", None))
    compact(log, now_ms=5000)
    assert left(log) == [(1, "b", "1"), (2, "a", None)]
    header = read_header(stored(log)[1])
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == 6000
    assert records(log)[1].timestamp == 1000  # as before, although the base has changed
    append(log, batch([b"1"], keys=[b"c"]))
    log.roll(0)
    compact(log, now_ms=5999, first_dirty=3)
    assert left(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    append(log, batch([b"2"], keys=[b"c"]))
    log.roll(0)
    compact(log, now_ms=6000, first_dirty=4)
    assert left(log) == [(1, "b", "1"), (4, "c", "2")]


def test_a_tombstone_beyond_a_full_key_map_waits_for_the_run_that_removes_its_older_values() -> None:
    log = log_of(("a", "old"), ("b", "1"), ("c", "1"), ("a", None), ("d", "1"))
    log.reconfigure(replace(CONFIG, segment_bytes=1 << 20, delete_retention_ms=0))
    for now_ms in (10, 20, 30):  # the offset of the last run may be lost by a crash: each begins at 0 again
        assert compact(log, now_ms=now_ms, most_keys=2) == 2
        assert left(log) == [(0, "a", "old"), (1, "b", "1"), (2, "c", "1"), (3, "a", None), (4, "d", "1")]
    assert compact(log, now_ms=40, first_dirty=2, most_keys=2) == 4
    assert left(log) == [(1, "b", "1"), (2, "c", "1"), (3, "a", None), (4, "d", "1")]
    append(log, batch([b"1"], keys=[b"e"]))
    log.roll(0)
    compact(log, now_ms=50, first_dirty=4)
    assert left(log) == [(1, "b", "1"), (2, "c", "1"), (4, "d", "1"), (5, "e", "1")]


def test_delete_retention_without_end_keeps_tombstones() -> None:
    log = log_of(("a", "1"), ("a", None), config=replace(CONFIG, delete_retention_ms=2**63 - 1))
    compact(log, now_ms=10**12)
    assert left(log) == [(1, "a", None)]
    compact(log, now_ms=10**13)
    assert left(log) == [(1, "a", None)]


def test_a_tombstone_that_supersedes_nothing_is_never_dropped() -> None:
    """One of a transaction that may have been aborted."""
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


def test_a_batch_that_turns_unreadable_halfway_supersedes_nothing() -> None:
    log = log_of(("a", "good"))
    bad = batch([b"new", b"cut"], keys=[b"a", b"b"])
    append(log, with_crc(bad[:-1] + b"\x02"))  # a header is announced behind the last byte
    append(log, batch([b"1"], keys=[b"c"]))
    log.roll(0)
    compact(log)
    assert read_header(stored(log)[0]).records_count == 1
    assert [record.value for record in read_records(stored(log)[0])] == [b"good"]


# --- timestamps that no client should have sent ----------------------------------------------------------------------

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("base", "timestamp"), [(MOST, MOST + 5), (MOST, 2 * MOST), (LEAST, MOST), (LEAST, 2), (-1, LEAST - 1), (5, LEAST)]
)
@pytest.mark.parametrize("horizon", [False, True])
def test_timestamps_that_leave_64_bits_are_compacted_as_every_client_reads_them(
    base: int, timestamp: int, horizon: bool
) -> None:
    """Clients add the delta to the base in 64 bits, and the sum wraps."""
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
    assert log.offset_for_time(1000, limit=4) is not None


# --- what keeps a log whole ------------------------------------------------------------------------------------------


def test_no_segment_ends_before_the_next_begins() -> None:
    log = log_of(*[("a", "x" * 100)] * 20)
    compact(log)
    assert left(log) == [(19, "a", "x" * 100)]
    wanted = left(log)
    log._disk.crash("kill")  # type: ignore[attr-defined]
    again = open_log(log._disk, CONFIG)
    assert again.end_offset == 20
    assert left(again) == wanted


def test_the_last_batch_of_each_producer_stays_even_if_it_is_empty() -> None:
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


def test_of_a_producer_that_is_forgotten_nothing_stays() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(CONFIG, segment_bytes=1 << 20))
    for producer in range(20):
        append(log, batch([b"1"], keys=[b"same"], producer=producer, sequence=0))
    append(log, batch([b"last"], keys=[b"same"]))
    log.roll(0)
    Compactor(disk, log, first_dirty=0, limit=21, now_ms=0, active_producers={7, 19}).run()
    kept = [read_header(data) for data in stored(log)]
    assert [(header.producer_id, header.records_count) for header in kept] == [(7, 0), (19, 0), (-1, 1)]
    assert [header.max_timestamp for header in kept] == [1000] * 3  # by which a producer's age is told


def test_small_remains_are_put_together_and_what_was_replaced_is_gone() -> None:
    disk = MemoryDisk()
    log = log_of(*[(str(number % 4), "x" * 100) for number in range(40)], disk=disk)
    before = len(log.segments.items)
    for _ in range(4):
        compact(log)
    assert len(log.segments.items) < before / 3
    assert len([name for name in disk.names("orders-0") if name.endswith(".log")]) == len(log.segments.items)
    assert [offset for offset, _, _ in left(log)] == [36, 37, 38, 39]
    assert log.size_bytes == sum(segment.size for segment in log.segments.items)


def test_transactional_records_supersede_nothing_and_control_batches_stay() -> None:
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


def test_batches_that_cannot_be_read_stay_as_they_are() -> None:
    log = open_log(MemoryDisk(), CONFIG)
    good = batch([b"1"] * 3, keys=[b"a"] * 3)
    bad = with_crc(good[:HEADER_BYTES] + bytes([255]) * (len(good) - HEADER_BYTES))
    kept = append(log, bad)
    append(log, batch([b"2"], keys=[b"a"]))
    log.roll(0)
    compact(log)
    assert stored(log)[0] == kept


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_run_takes_no_more_keys_than_it_may_and_the_next_goes_on() -> None:
    log = log_of(*[(str(number % 10), str(number)) for number in range(40)])
    first = compact(log, most_keys=7)
    assert 0 < first < 40
    position, runs = first, 1
    while position < log.end_offset:
        following = compact(log, first_dirty=position, most_keys=7)
        assert following > position
        position, runs = following, runs + 1
    assert runs > 3
    assert [offset for offset, _, _ in left(log)] == list(range(30, 40))


def test_a_run_is_made_of_many_short_steps() -> None:
    log = open_log(MemoryDisk(), replace(CONFIG, segment_bytes=1 << 20))
    for _ in range(10):
        append(log, batch([b"v"] * 2500, keys=[b"%d" % number for number in range(2500)]))
    log.roll(0)
    steps = list(Compactor(log._disk, log, first_dirty=0, limit=log.end_offset, now_ms=0).steps())
    assert len(steps) >= 2 * 10 * 3
    assert sum(step is not None for step in steps) == 3  # a file and its indexes to sync
    assert len(records(log)) == 2500


@pytest.mark.parametrize("change", ["truncate", "truncate fully", "delete", "append"])
def test_whatever_happens_between_two_steps_the_log_stays_right(change: str) -> None:
    changed = 0
    for pause in range(0, 80, 3):
        disk = MemoryDisk()
        log = log_of(*[(str(number % 3), "x" * 100) for number in range(20)], disk=disk)
        steps = Compactor(disk, log, first_dirty=0, limit=20, now_ms=0).steps()
        for _, file in zip(range(pause), steps, strict=False):
            if file is not None:
                file.sync()
        end, start = 20, 0
        if change == "truncate":
            log.truncate_to(7)
            end = log.end_offset
        elif change == "truncate fully":
            log.truncate_fully(50)
            end = start = 50
        elif change == "delete":
            log.reconfigure(replace(CONFIG, delete=True, retention_bytes=log.size_bytes // 2, file_delete_delay_ms=0))
            log.expire(0, limit=20)
            log.expire(1, limit=20)
            start = log.start_offset
        else:
            append(log, batch([b"new"], keys=[b"0"]))
            log.roll(0)
            end = 21
        for file in steps:
            changed += 1
            if file is not None:
                file.sync()
        assert (log.start_offset, log.end_offset) == (start, end)
        wanted = left(log)
        disk.crash("kill")
        again = open_log(disk, CONFIG, start_offset=start)
        assert again.end_offset == end
        assert left(again) == wanted
        if change == "append":
            assert {key: offset for offset, key, _ in wanted} == {"0": 20, "1": 19, "2": 17}
    assert changed > 20


@pytest.mark.parametrize("seed", range(10))
def test_any_history_is_compacted_as_a_dictionary_would_be(seed: int) -> None:
    random, disk = Random(seed), MemoryDisk(seed)
    log, cleaned = open_log(disk, CONFIG), 0
    model: dict[bytes | None, tuple[int, bytes | None]] = {}
    for number in range(120):
        count = random.randrange(1, 5)
        keys = [b"%d" % random.randrange(12) for _ in range(count)]
        values = [None if random.random() < 0.15 else b"%d" % number for _ in keys]
        base = log.end_offset
        append(log, batch(values, keys=keys, codec=random.randrange(5), producer=number % 2, sequence=number))
        model |= {key: (base + at, value) for at, (key, value) in enumerate(zip(keys, values, strict=True))}
        if random.random() < 0.1:
            cleaned = compact(log, first_dirty=cleaned, now_ms=0, most_keys=random.choice((3, 1000)))
            assert {record.key: (record.offset, record.value) for record in records(log)} == model
        if random.random() < 0.05:
            disk.crash("kill")
            log = open_log(disk, CONFIG)
        if random.random() < 0.05:
            log.close()
            log = open_log(disk, CONFIG, clean=True)
    log.roll(0)
    compact(log, first_dirty=cleaned)
    assert len(records(log)) == len(model)
    assert {record.key: (record.offset, record.value) for record in records(log)} == model


# --- when ------------------------------------------------------------------------------------------------------------


def due(log: Log, first_dirty: int = 0, now_ms: int = 10**6, **settings: object) -> bool:
    log.reconfigure(replace(CONFIG, **settings))  # type: ignore[arg-type]
    return cleanable(log, first_dirty, log.end_offset, now_ms).is_due


def test_compaction_is_due_by_the_share_of_dirty_bytes() -> None:
    log = log_of(*[("a", "x" * 200)] * 10)
    half = log.segments.bases[len(log.segments.bases) // 2]
    assert due(log, half, min_cleanable_dirty_ratio=0.4)
    assert not due(log, half, min_cleanable_dirty_ratio=0.8)
    assert not due(log, log.segments.bases[-1])
    assert not due(log, compact=False)


def test_compaction_is_overdue_when_the_oldest_dirty_batch_is() -> None:
    log = log_of(*[("a", "x" * 200)] * 4)
    assert not due(log, min_cleanable_dirty_ratio=1.0, first_dirty=2, now_ms=1500, max_compaction_lag_ms=500)
    assert due(log, min_cleanable_dirty_ratio=1.0, first_dirty=2, now_ms=1501, max_compaction_lag_ms=500)


def test_records_younger_than_the_lag_are_left_alone() -> None:
    log = log_of(*[("a", "x" * 200)] * 4)
    assert not due(log, now_ms=1500, min_compaction_lag_ms=501)
    assert due(log, now_ms=1500, min_compaction_lag_ms=500)


def test_a_checkpoint_that_cannot_be_is_ignored() -> None:
    log = log_of(("a", "1"), ("a", "2"))
    assert compact(log, first_dirty=99) == 2
    assert left(log) == [(1, "a", "2")]
