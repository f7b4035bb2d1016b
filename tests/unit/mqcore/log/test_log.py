"""Appending, rolling and reading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import read_header, read_headers
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, append, batch, offsets, open_log, place, stored

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=50)


def segments(disk: MemoryDisk) -> list[int]:
    return [int(name[:20]) for name in disk.names(DIRECTORY) if name.endswith(".log")]


def read(log: Log, offset: int, max_bytes: int = 1 << 20, limit: int | None = None) -> list[tuple[int, int]]:
    piece = log.read(offset, max_bytes, limit=log.end_offset if limit is None else limit)
    if piece is None:
        return []
    data = piece.read()
    assert len(data) == piece.length
    return offsets([data[position:] for position, _ in read_headers(data)])


def test_a_new_log_begins_at_the_given_offset() -> None:
    log = open_log(MemoryDisk(), start_offset=42)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (42, 42, 42)
    assert read(log, 42) == []
    append(log)
    assert offsets(stored(log)) == [(42, 43)]


def test_appended_batches_are_read_back_byte_for_byte() -> None:
    log = open_log(MemoryDisk(), SMALL)
    wanted = [append(log, batch([b"x" * size] * 3)) for size in range(40)]
    assert stored(log) == wanted
    assert log.end_offset == 120
    assert log.size_bytes == sum(map(len, wanted))


def test_several_batches_in_one_append_are_found_one_by_one() -> None:
    log = open_log(MemoryDisk())
    first, second = batch([b"a", b"b"]), batch([b"c"])
    headers = [place(first, 0), place(second, 2)]
    log.append(first + second, headers, 0)
    assert log.end_offset == 3
    assert read(log, 2) == [(2, 3)]


def test_a_read_inside_a_batch_returns_the_whole_batch() -> None:
    log = open_log(MemoryDisk())
    append(log, batch([b"0", b"1", b"2"]))
    append(log, batch([b"3", b"4", b"5"]))
    assert read(log, 4) == [(3, 6)]
    assert read(log, 2, max_bytes=1) == [(0, 3)]


def test_the_first_batch_is_complete_and_later_ones_are_cut_at_the_byte_limit() -> None:
    log = open_log(MemoryDisk())
    one, two, three = (append(log, batch([b"v" * 100])) for _ in range(3))
    for max_bytes, length in ((0, len(one)), (len(one), len(one)), (len(one) + 5, len(one) + 5), (9999, 3 * len(one))):
        piece = log.read(0, max_bytes, limit=3)
        assert piece is not None
        assert piece.length == length
        assert piece.read() == (one + two + three)[:length]


def test_a_read_may_return_nothing_if_no_batch_fits() -> None:
    log = open_log(MemoryDisk())
    data = append(log)
    assert log.read(0, len(data) - 1, limit=1, at_least_one=False) is None
    assert log.read(0, len(data), limit=1, at_least_one=False) is not None


def test_only_batches_entirely_below_the_limit_are_read() -> None:
    log = open_log(MemoryDisk(), SMALL)
    for _ in range(20):
        append(log, batch([b"a", b"b"]))
    assert [offset for offset, _ in offsets(stored(log, limit=14))] == list(range(0, 14, 2))
    assert [offset for offset, _ in offsets(stored(log, limit=15))] == list(range(0, 14, 2))
    assert read(log, 14, limit=14) == []
    assert read(log, 14, limit=15) == []
    assert read(log, 0, limit=1) == []


def test_every_offset_is_found_in_every_segment_in_any_order() -> None:
    log = open_log(MemoryDisk(), SMALL)
    for size in range(60):
        append(log, batch([b"x" * (size % 7), b"y"]))
    assert len(log.segments.items) > 10
    for offset in (*range(119, -1, -1), *range(0, 120, 7), 60, 3):
        assert read(log, offset, max_bytes=1) == [(offset // 2 * 2, offset // 2 * 2 + 2)]


def test_a_reader_at_the_end_continues_across_a_roll() -> None:
    log = open_log(MemoryDisk(), SMALL)
    found = []
    for number in range(40):
        found.append(append(log, batch([b"%d" % number])))
        assert read(log, number) == [(number, number + 1)]
        assert log.read(number + 1, 100, limit=log.end_offset) is None
        if number % 9 == 0:
            log.roll(0)
    assert stored(log) == found


def test_a_slice_stays_readable_when_its_segment_is_removed() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(SMALL, file_delete_delay_ms=0))
    first = append(log, batch([b"x" * 300]))
    append(log, batch([b"x" * 300]))
    piece = log.read(0, 9999, limit=2)
    log.advance_start(1)
    assert log.apply_retention(2000, limit=2) == ["00000000000000000000.log"]
    log.apply_retention(2001, limit=2)
    assert [name for name in disk.names(DIRECTORY) if name.startswith("00000000000000000000.log")] == []
    assert piece is not None
    assert piece.read() == first


# --- rolling ---------------------------------------------------------------------------------------------------------


def test_a_segment_rolls_before_it_exceeds_its_size() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_bytes=3 * len(batch([b"x"]))))
    for _ in range(7):
        append(log, batch([b"x"]))
    assert segments(disk) == [0, 3, 6]


def test_a_batch_larger_than_a_segment_gets_its_own_segment() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL)
    for size in (10, 1000, 10):
        append(log, batch([b"x" * size]))
    assert segments(disk) == [0, 1, 2]


def test_a_segment_rolls_by_the_age_of_its_batches() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_ms=100))
    for timestamp in (1000, 1100, 1101, 1201, 1202):
        append(log, batch(timestamp=timestamp), now_ms=5000)
    assert segments(disk) == [0, 2, 4]


def test_a_segment_without_timestamps_rolls_by_the_clock() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_ms=100), now_ms=1000)
    for now_ms in (1000, 1100, 1101):
        append(log, batch(timestamp=-1), now_ms=now_ms)
    assert segments(disk) == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(index_interval_bytes=0, segment_index_bytes=24))
    for _ in range(6):
        append(log)
    assert segments(disk) == [0, 3]


def test_a_segment_rolls_before_offsets_exceed_its_index_and_an_empty_one_is_dropped() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    far = batch([b"x"])
    header = place(far, 2**31)
    log.append(far, [header], 0)  # as a follower that copies a compacted log would
    assert segments(disk) == [2**31]
    further = batch([b"y"])
    log.append(further, [place(further, 2**33)], 0)
    assert segments(disk) == [2**31, 2**33]
    assert log.end_offset == 2**33 + 1
    assert stored_from(log, 2**31) == [2**31, 2**33]


def stored_from(log: Log, offset: int) -> list[int]:
    found = []
    while (piece := log.read(offset, 1 << 20, limit=log.end_offset)) is not None:
        for _, header in read_headers(piece.read()):
            found.append(header.base_offset)
            offset = header.next_offset
    return found


def test_rolling_an_empty_segment_changes_nothing() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    log.roll(0)
    append(log)
    log.roll(0)
    log.roll(0)
    assert segments(disk) == [0, 1]


def test_new_settings_apply_from_the_next_append() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    log.reconfigure(SMALL)
    append(log, batch([b"x" * 390]))
    assert segments(disk) == [0, 1]


@pytest.mark.parametrize("jitter", [0, 50])
def test_jitter_depends_on_the_name_of_the_segment_and_not_on_chance(jitter: int) -> None:
    def rolled_at(directory: str) -> int:
        config = LogConfig(segment_ms=100, segment_jitter_ms=jitter)
        disk = MemoryDisk()
        log = Log.open(disk, directory, config, now_ms=0, clean=False, recovery_point=0, observer=LastSequences())
        for timestamp in range(1000, 1110):
            append(log, batch(timestamp=timestamp))
            if len(log.segments.items) > 1:
                return timestamp - 1000
        return -1

    found = {rolled_at(f"topic-{number}") for number in range(8)}
    assert found == {rolled_at(f"topic-{number}") for number in range(8)}
    assert (len(found) > 1) == (jitter > 0)
    assert all(50 <= age <= 101 for age in found)


# --- offsets and epochs ----------------------------------------------------------------------------------------------


def test_epochs_begin_with_their_first_batch_and_survive_a_clean_stop() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for epoch in (0, 0, 3, 3, 5):
        append(log, epoch=epoch)
    assert log.epochs.last_epoch == 5
    assert [log.epochs.end_offset_for(epoch) for epoch in range(-1, 7)] == [
        (-1, -1), (0, 2), (0, 2), (0, 2), (3, 4), (3, 4), (5, 5), (-1, -1),
    ]  # fmt: skip
    log.close()
    again = open_log(disk, clean=True)
    assert again.epochs.starts == log.epochs.starts


def test_a_sync_returns_the_durable_end_and_leaves_nothing_unsynced() -> None:
    log = open_log(MemoryDisk())
    append(log)
    assert log.needs_sync()
    assert (log.flushed_offset, log.sync(), log.flushed_offset) == (0, 1, 1)
    assert not log.needs_sync()
    log.roll(0)
    assert log.needs_sync()  # the new segment's name
    log.sync()
    assert not log.needs_sync()


def test_the_header_of_the_last_batch_is_at_the_end_of_the_file() -> None:
    log = open_log(MemoryDisk())
    data = append(log)
    last = log.segments.active.last_header()
    assert last == read_header(data)
