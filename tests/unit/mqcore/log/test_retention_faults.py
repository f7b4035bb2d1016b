"""Retention on a disk without descriptors or space, or with a bad sector: the rest is removed later."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import product

import pytest

from mqcore.disk.memory import CallKind, Crashed, MemoryDisk
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.log.log import Log
from mqcore.log.segment import Segment
from mqcore.log.segment_files import segment_bases
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50, retention_ms=1000, file_delete_delay_ms=0)
LATER = 10_000


def filled(disk: MemoryDisk, batches: int = 12) -> Log:
    log = open_log(disk, CONFIG)
    for _ in range(batches):
        append(log, batch([b"x" * 100]))
    log.sync()
    return log


def files(disk: MemoryDisk, suffix: str) -> list[str]:
    return [name for name in disk.names("orders-0") if name.endswith(suffix)]


@pytest.mark.parametrize("kind", ["open", "rename", "sync_directory", "remove"])
@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOSPC])
def test_retention_without_space_or_descriptors_leaves_a_readable_log_and_finishes_later(
    kind: CallKind, error: int
) -> None:
    met = 0
    for skip in range(12):
        disk = MemoryDisk()
        log = filled(disk)
        disk.fail(kind, error, skip=skip)
        try:
            log.apply_retention(LATER, limit=12)
        except OSError as fault:
            assert fault.errno == error
            met += 1
        assert log.faults.failure is None
        assert log.start_offset == log.segments.bases[0]
        assert len(stored(log)) == 12 - log.start_offset  # every remaining record can be read
        assert sum(segment.size for segment in log.segments.items) == log.size_bytes
        append(log)
        log.apply_retention(LATER, limit=12)
        assert log.start_offset == 12
        log.apply_retention(LATER, limit=12)
        assert not files(disk, ".deleted")
        disk.crash("kill")
        again = open_log(disk, CONFIG, start_offset=12)
        assert (again.start_offset, again.end_offset, len(stored(again))) == (12, 13, 1)
    assert met


def test_a_crash_after_an_unsynced_removal_leaves_no_gap() -> None:
    for seed in range(30):
        disk = MemoryDisk(seed)
        log = filled(disk)
        disk.fail("sync_directory", errno.EMFILE, skip=seed % 4)
        with pytest.raises(OSError, match="Too many open files"):
            log.apply_retention(LATER, limit=12)
        disk.crash("power")
        again = open_log(disk, CONFIG, recovery_point=12)
        assert again.end_offset == 12
        assert len(stored(again)) == 12 - again.start_offset


def test_an_old_segment_is_removed_only_after_the_names_of_newer_ones_are_durable() -> None:
    """Otherwise a power loss could keep the removal and lose a newer name, and the log would begin with a later one."""
    for seed, nth in product(range(40), range(1, 5)):
        disk = MemoryDisk(seed)
        log = open_log(disk, CONFIG)
        for _ in range(9):  # three segments, whose names no sync has made durable
            append(log, batch([b"x" * 100]))
        disk.sync_directory("")
        second = log.segments.bases[1]
        log.advance_start(second)
        disk.crash_at(nth, "after")
        with pytest.raises(Crashed):
            log.apply_retention(0, limit=9)
            log.close()
        disk.crash("power")
        assert min(segment_bases(disk.names("orders-0"))) <= second, (seed, nth)


@pytest.mark.parametrize("batches", [2, 12])
def test_a_full_disk_is_freed_even_if_the_active_segment_has_expired_too(batches: int) -> None:
    disk = MemoryDisk()
    log = filled(disk, batches)
    used = log.size_bytes
    disk.capacity = 0
    assert log.apply_retention(LATER, limit=batches)
    assert (log.start_offset, log.size_bytes) == (batches, 0)
    disk.capacity = used  # the log's space is free again
    for _ in range(batches // 2):
        append(log, batch([b"x" * 100]))
    disk.crash("kill")
    assert len(stored(open_log(disk, CONFIG, start_offset=batches))) == batches // 2


def test_an_io_error_in_retention_fails_the_log() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    disk.fail("rename", errno.EIO)
    with pytest.raises(LogFailed):
        log.apply_retention(LATER, limit=12)


def test_a_file_that_cannot_be_unlinked_does_not_block_retention() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.reconfigure(replace(CONFIG, retention_ms=-1, retention_bytes=log.segments.active.size))
    disk.fail("remove", errno.EIO, times=2)
    with pytest.raises(OSError, match="Input/output"):
        log.apply_retention(LATER, limit=12)
    assert (log.faults.failure, len(log.segments.items)) == (None, 1)
    assert len(files(disk, ".deleted")) == 2
    log.apply_retention(LATER, limit=12)
    assert not files(disk, ".deleted")


def test_retention_reads_no_timestamp_unless_age_matters() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.reconfigure(replace(CONFIG, retention_ms=-1))
    log.apply_retention(LATER, limit=12)  # releases the indexes of sealed segments
    disk.fail("read", errno.EIO, times=99)
    assert log.apply_retention(LATER, limit=12) == []
    log.reconfigure(replace(CONFIG, retention_ms=-1, retention_bytes=1))
    assert log.apply_retention(LATER, limit=12)


# --- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["read", "corrupt"])
def test_a_half_rebuilt_index_is_not_used(fault: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(CONFIG, segment_bytes=1 << 20))
    for number in range(2000):
        append(log, batch([b"x" * 100], timestamp=1000 + number))
    log.roll(0)
    log.sync()
    for name in files(disk, "index"):
        disk.remove(f"orders-0/{name}")
    segment = Segment(disk, "orders-0", 0)
    if fault == "read":
        disk.fail("read", errno.EIO, skip=1)
    else:  # a bad sector in the second half
        content = segment.file.read(0, segment.size)
        damaged = content[: segment.size // 2] + bytes(512) + content[segment.size // 2 + 512 :]
        segment.file.truncate(0)
        segment.file.append([damaged])
    for _ in range(2):
        with pytest.raises((OSError, CorruptLog)):
            _ = segment.largest
        if fault == "read":
            break
    if fault == "read":  # the fault is over
        assert segment.largest == (2999, 1999)
        assert segment.locate(1999) > segment.size - 500


def test_lookups_are_correct_after_a_truncation_that_could_not_rebuild_its_index() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(CONFIG, segment_bytes=1 << 20))
    for number in range(2000):
        append(log, batch([b"x" * 100], timestamp=1000 + number))
    segment = log.segments.active
    position = segment.locate(1500)
    disk.fail("read", errno.EIO, skip=1)
    with pytest.raises(OSError, match="Input/output"):
        segment.truncate(position)
    assert segment.largest == (2499, 1499)
