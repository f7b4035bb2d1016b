"""Truncating a log at its end (followers) and at its start (deleted records, retention)."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import product

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, append, batch, offsets, open_log, stored

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50, retention_ms=-1, file_delete_delay_ms=100)


@pytest.mark.parametrize("target", range(41))
def test_a_truncated_log_equals_one_that_never_had_the_rest(target: int) -> None:
    disk, observer, control = MemoryDisk(), LastSequences(), LastSequences()
    log, other = open_log(disk, CONFIG, observer=observer), open_log(MemoryDisk(), CONFIG, observer=control)
    for number in range(20):
        data = batch([b"a", b"b"], producer=number % 3, sequence=number * 2, timestamp=1000 + number)
        append(log, bytearray(data), epoch=number // 4)
        if 2 * number + 2 <= target:
            append(other, bytearray(data), epoch=number // 4)
    log.sync()
    log.truncate_to(target)
    end = target // 2 * 2
    assert log.end_offset == end
    assert log.flushed_offset <= end
    assert stored(log) == stored(other)
    assert log.epochs.starts == other.epochs.starts
    assert observer.last == control.last
    for one in (log, other):
        append(one, batch([b"new"], timestamp=1), epoch=9)
    assert stored(log) == stored(other)
    disk.crash("kill")
    again = open_log(disk, CONFIG, recovery_point=min(target, end))
    assert stored(again) == stored(other)
    assert again.epochs.starts == log.epochs.starts


def test_truncated_bytes_do_not_reappear_under_new_ones_after_a_power_loss() -> None:
    for seed in range(60):
        disk = MemoryDisk(seed)
        log = open_log(disk, CONFIG)
        for _ in range(6):
            append(log, batch([b"old"]))
        log.sync()
        log.truncate_to(2)
        append(log, batch([b"new"]), epoch=1)  # same length and position as an old one
        disk.crash("power")
        found = stored(open_log(disk, CONFIG, recovery_point=2))
        assert len(found) in (2, 3)
        assert all(b"old" not in data for data in found[2:])


def test_a_truncation_left_unsynced_by_a_kill_is_durable_before_the_next_append() -> None:
    for seed in range(60):
        disk = MemoryDisk(seed)
        log = open_log(disk, CONFIG)
        for _ in range(3):
            append(log, batch([b"old"]))
        log.sync()
        disk.fail("sync", errno.EIO)
        with pytest.raises(LogFailed):
            log.truncate_to(1)  # truncated, but not durably
        disk.crash("kill")
        log = open_log(disk, CONFIG, recovery_point=1)
        assert log.end_offset == 1
        append(log, batch([b"new"]), epoch=1)
        disk.crash("power")
        found = stored(open_log(disk, CONFIG, recovery_point=1))
        assert len(found) in (1, 2)
        assert all(b"old" not in data for data in found[1:])


def test_a_segment_dropped_before_a_kill_does_not_reappear_after_a_power_loss() -> None:
    dropped = 0
    for seed, skip in product(range(20), range(8)):
        disk = MemoryDisk(seed)
        log = open_log(disk, CONFIG)
        for _ in range(6):
            append(log, batch([b"old" * 100]))
        log.sync()
        disk.fail("sync_directory", errno.EIO, skip=skip)
        try:
            log.truncate_to(2)
        except LogFailed:
            dropped += 1
        disk.crash("kill")
        log = open_log(disk, CONFIG, recovery_point=2)
        kept = stored(log)
        append(log, batch([b"new" * 100]), epoch=1)
        disk.crash("power")
        try:
            found = stored(open_log(disk, CONFIG, recovery_point=2))
        except CorruptLog:
            continue  # a later segment survived without an earlier one
        assert [data for data in found if b"old" in data] == kept[: len(found)]
    assert dropped > 20


def test_a_fully_truncated_log_continues_at_the_given_offset() -> None:
    disk, observer = MemoryDisk(), LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for number in range(10):
        append(log, batch(producer=1, sequence=number))
    log.truncate_fully(100)
    assert (log.start_offset, log.end_offset, log.flushed_offset, log.epochs.last_epoch) == (100, 100, 100, -1)
    assert observer.last == {}
    append(log)
    assert offsets(stored(log)) == [(100, 101)]
    disk.crash("power")
    assert open_log(disk, CONFIG).start_offset == 100


def test_truncating_above_the_end_changes_nothing() -> None:
    log = open_log(MemoryDisk())
    append(log)
    log.truncate_to(1)
    log.truncate_to(99)
    assert log.end_offset == 1


# --- at the start ----------------------------------------------------------------------------------------------------


def test_deleted_records_disappear_at_once_and_their_segments_with_the_next_retention() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    wanted = [append(log, batch([b"x" * 100]), epoch=number // 5) for number in range(10)]
    log.advance_start(5)
    assert (log.start_offset, log.epochs.starts[0]) == (5, (1, 5))
    assert stored(log) == wanted[5:]
    removed = log.apply_retention(2000, limit=10)
    assert removed == ["00000000000000000000.log", "00000000000000000002.log"]
    assert stored(log) == wanted[5:]
    assert log.start_offset == 5


def test_removed_files_are_renamed_first_and_unlinked_after_their_delay() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    for _ in range(5):
        append(log, batch([b"x" * 300]))
    log.advance_start(2)
    log.apply_retention(1000, limit=5)
    deleted = [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    assert "00000000000000000000.log.deleted" in deleted
    assert "00000000000000000001.index.deleted" in deleted
    log.apply_retention(1099, limit=5)
    assert [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")] == deleted
    log.apply_retention(1100, limit=5)
    assert [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")] == []


def test_segments_older_than_retention_ms_are_removed_even_the_active_one() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(CONFIG, retention_ms=100))
    for number in range(4):
        append(log, batch([b"x" * 300], timestamp=1000 + 100 * number))
    assert log.apply_retention(1200, limit=4) == ["00000000000000000000.log"]
    assert log.start_offset == 1
    assert len(log.apply_retention(9000, limit=4)) == 3
    assert (log.start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)
    append(log)
    assert offsets(stored(log)) == [(4, 5)]


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    disk = MemoryDisk()
    disk.now_ms = 5000
    log = open_log(disk, replace(CONFIG, retention_ms=100))
    append(log, batch(timestamp=-1))
    assert log.apply_retention(5100, limit=1) == []
    assert len(log.apply_retention(5101, limit=1)) == 1


def test_segments_beyond_retention_bytes_are_removed_oldest_first() -> None:
    log = open_log(MemoryDisk(), CONFIG)
    size = {len(append(log, batch([b"x" * 300]))) for _ in range(6)}.pop()
    for keep, left in ((6 * size, 6), (6 * size - 1, 6), (5 * size, 5), (3 * size, 3), (0, 0)):
        log.reconfigure(replace(CONFIG, retention_bytes=keep))
        log.apply_retention(1000, limit=6)
        assert len(stored(log)) == left


def test_retention_removes_nothing_above_the_high_watermark() -> None:
    log = open_log(MemoryDisk(), replace(CONFIG, retention_ms=0))
    for _ in range(4):
        append(log, batch([b"x" * 300]))
    assert len(log.apply_retention(10**9, limit=2)) == 2
    assert log.start_offset == 2


def test_retention_by_time_or_size_ignores_a_compacted_topic() -> None:
    log = open_log(MemoryDisk(), replace(CONFIG, retention_ms=0, retention_bytes=0, compact=True, delete=False))
    for _ in range(4):
        append(log, batch([b"x" * 300]))
    assert log.apply_retention(10**9, limit=4) == []


def test_a_crash_anywhere_in_retention_leaves_no_gap() -> None:
    for kind in ("kill", "power"):
        for nth in range(1, 16):
            disk = MemoryDisk(nth)
            log = open_log(disk, CONFIG)
            wanted = [append(log, batch([b"x" * 300])) for _ in range(6)]
            log.sync()
            log.reconfigure(replace(CONFIG, retention_bytes=700))
            disk.crash_at(nth, "after")
            with pytest.raises(Crashed):
                log.apply_retention(1000, limit=6)
                disk.replace("x", b"")  # retention needed fewer changes: crash here
                disk.replace("y", b"")
                disk.replace("z", b"")
            disk.crash(kind)
            found = stored(open_log(disk, CONFIG, recovery_point=6))
            assert found == wanted[-len(found) :]
            assert len(found) >= 2
