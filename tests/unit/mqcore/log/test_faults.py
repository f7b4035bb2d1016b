"""A log on a disk that fails, fills up or runs out of descriptors."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mqcore.disk.memory import CallKind, Effect, MemoryDisk
from mqcore.disk.posix import PosixDisk
from mqcore.log.compaction import Compactor
from mqcore.log.errors import LogFailed
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.wire.records import read_records
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50)


@pytest.mark.parametrize("errno_", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_rejects_an_append_without_a_change_and_accepts_it_once_there_is_space(errno_: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    kept = append(log)
    disk.fail("append", errno_)
    with pytest.raises(OSError) as caught:
        append(log)
    assert caught.value.errno == errno_
    assert (log.end_offset, log.faults.failure, stored(log)) == (1, None, [kept])
    again = append(log)
    assert stored(log) == [kept, again]
    disk.crash("kill")
    assert stored(open_log(disk)) == [kept, again]


def test_a_disk_that_fills_at_every_byte_of_appends_and_rolls_never_breaks_the_log() -> None:
    whole = MemoryDisk()
    log = open_log(whole, CONFIG)
    for _ in range(10):
        append(log, batch([b"x" * 60]))
    bytes_without_limit = sum(whole.size(f"orders-0/{name}") for name in whole.names("orders-0"))
    for capacity in range(0, bytes_without_limit, 7):
        disk = MemoryDisk(capacity=capacity)
        log, taken = open_log(disk, CONFIG), []
        for _ in range(10):
            try:
                taken.append(append(log, batch([b"x" * 60])))
            except OSError as fault:
                assert fault.errno == errno.ENOSPC
        assert stored(log) == taken  # consumers are still served
        disk.capacity = 10**6
        taken.append(append(log, batch([b"space"])))
        assert stored(log) == taken
        disk.crash("kill")
        assert stored(open_log(disk, CONFIG)) == taken


@pytest.mark.parametrize("kind", ["append", "open"])
def test_after_an_io_error_the_log_refuses_everything_but_reads(kind: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    kept = append(log, batch([b"x" * 300]))
    disk.fail(kind, errno.EIO)  # type: ignore[arg-type]
    with pytest.raises(LogFailed, match="orders-0 failed"):
        append(log, batch([b"y" * 300]))  # rolls and opens the next segment
    assert log.faults.failure is not None
    for use in (lambda: append(log), log.sync, lambda: log.roll(0), lambda: log.truncate_to(0)):
        with pytest.raises(LogFailed):
            use()
    assert stored(log) == [kept]
    log.close()  # closes its files and flushes nothing


def test_a_failed_sync_is_final_and_never_retried() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail("sync", errno.EIO)
    with pytest.raises(LogFailed):
        log.sync()
    before = disk.changes
    for _ in range(3):
        with pytest.raises(LogFailed):
            log.sync()
    assert disk.changes == before
    assert log.flushed_offset == 0


@pytest.mark.parametrize("kind", ["sync", "sync_directory"])
def test_a_fault_in_any_call_of_a_sync_leaves_the_flushed_offset_unchanged(kind: CallKind) -> None:
    calls = [called for called in _calls_of_a_sync() if called == kind]
    assert len(calls) >= 2
    for nth in range(len(calls)):
        disk = MemoryDisk()
        log = _unsynced(disk)
        disk.fail(kind, errno.EIO, skip=nth)
        with pytest.raises(LogFailed):
            log.sync()
        assert log.flushed_offset == 0
    disk = MemoryDisk()
    log = _unsynced(disk)
    disk.fail(kind, errno.EIO, skip=len(calls))  # the control: no call is left to meet the fault
    assert log.sync() == log.flushed_offset == 8


def _unsynced(disk: MemoryDisk) -> Log:
    log = open_log(disk, CONFIG)
    for _ in range(8):
        append(log, batch([b"x" * 100]))
    return log


def _calls_of_a_sync() -> list[CallKind]:
    disk = MemoryDisk()
    log = _unsynced(disk)
    calls: list[CallKind] = []
    make_change = disk.make_change

    def record(kind: CallKind, effect: Effect) -> None:
        calls.append(kind)
        make_change(kind, effect)

    disk.make_change = record  # type: ignore[method-assign]
    log.sync()
    return calls


def test_a_sync_succeeds_although_the_epochs_file_cannot_be_written() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail("rename", errno.ENOSPC)
    assert log.sync() == 1
    assert log.needs_sync()  # it is written by the next sync
    disk.crash("power")
    assert open_log(disk, recovery_point=1).epochs.end_offset_for(0) == (0, 1)


def test_a_read_error_fails_the_log_but_a_lack_of_descriptors_does_not() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    wanted = [append(log, batch([b"x" * 300])) for _ in range(3)]
    log.sync()
    log.apply_retention(0, limit=3)  # closes the files of sealed segments
    disk.fail("open", errno.EMFILE)
    with pytest.raises(OSError) as caught:
        log.read(0, 1, limit=3)
    assert caught.value.errno == errno.EMFILE
    assert stored(log) == wanted
    disk.fail("read", errno.EIO)
    with pytest.raises(LogFailed):
        log.read(1, 1, limit=3)


def test_without_a_descriptor_for_a_new_segment_the_active_one_grows_beyond_its_limit() -> None:
    segments = []
    for nth in range(6):
        disk = MemoryDisk()
        log = open_log(disk, CONFIG)
        taken = [append(log, batch([b"x" * 300]))]
        disk.fail("open", errno.EMFILE, skip=nth)
        taken += [append(log, batch([b"y" * 300])) for _ in range(3)]
        assert stored(log) == taken
        segments.append(len(log.segments.items))
        disk.crash("kill")
        assert stored(open_log(disk, CONFIG)) == taken
    without_fault = 4
    assert segments == [3, 3, 3, 3, 3, 3] and max(segments) < without_fault


@pytest.mark.parametrize("kind", ["open", "sync_directory"])
@pytest.mark.parametrize("errno_", [errno.EMFILE, errno.ENFILE])
def test_a_sync_without_a_free_descriptor_can_be_repeated(kind: str, errno_: int) -> None:
    for nth in range(8):
        disk = MemoryDisk()
        log = open_log(disk, CONFIG)
        wanted = [append(log, batch([b"x" * 300])) for _ in range(3)]
        disk.fail(kind, errno_, skip=nth)  # type: ignore[arg-type]
        try:
            log.sync()
        except OSError as fault:
            assert fault.errno == errno_ and log.flushed_offset == 0
        assert log.faults.failure is None
        assert log.sync() == 3
        disk.crash("power")
        assert stored(open_log(disk, CONFIG)) == wanted


def test_unsynced_segments_keep_a_bounded_number_of_files_open(tmp_path: Path) -> None:
    log = open_log(PosixDisk(tmp_path), LogConfig(segment_bytes=100))
    before = open_files()
    for _ in range(2_000):
        append(log, batch([b"x" * 60]))
    held = open_files() - before
    assert held < 300 and log.segments.should_sync_soon
    log.sync()
    for number in range(0, 2_000, 9):  # reopens their files
        assert log.read(number, 1, limit=2_000) is not None
    append(log, batch([b"x" * 60]))
    assert open_files() - before < 50
    assert log.end_offset == 2_001


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_read_only_disk_fails_the_log() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fail("append", errno.EROFS)
    with pytest.raises(LogFailed, match="Read-only"):
        append(log)


def test_an_io_error_during_a_truncation_fails_the_log_and_a_restart_finds_a_prefix() -> None:
    kinds = ("truncate", "sync", "rename", "sync_directory", "append", "remove", "open")
    failed = 0
    for kind in kinds:
        for skip in range(6):
            disk = MemoryDisk()
            log, wanted = _synced(disk)
            disk.fail(kind, errno.EIO, skip=skip)  # type: ignore[arg-type]
            try:
                log.truncate_to(3)
            except LogFailed:
                failed += 1
                assert log.faults.failure is not None
            disk.crash("kill")
            found = stored(open_log(disk, CONFIG, recovery_point=3))
            assert found == wanted[: len(found)]
            assert len(found) >= 3
    assert failed > 8


def _synced(disk: MemoryDisk) -> tuple[Log, list[bytes]]:
    log = open_log(disk, CONFIG)
    wanted = [append(log, batch([b"x" * 100])) for _ in range(8)]
    log.sync()
    return log, wanted


def test_a_full_disk_stops_compaction_and_leaves_the_log_unchanged() -> None:
    config = replace(CONFIG, compact=True, min_cleanable_dirty_ratio=0.0)
    refused = 0
    for capacity_left in range(0, 500, 20):
        disk = MemoryDisk()
        log = open_log(disk, config)
        for number in range(12):
            append(log, batch([b"x" * 100], keys=[b"%d" % (number % 9)]))
        newest = _newest(log)
        disk.capacity = sum(disk.size(f"orders-0/{name}") for name in disk.names("orders-0")) + capacity_left
        compactor = Compactor(disk, log, first_dirty=0, limit=12, now_ms=0)
        try:
            compactor.run()
        except OSError as fault:
            assert fault.errno == errno.ENOSPC
            assert compactor.cleaned_to == 0
            refused += 1
        assert log.faults.failure is None
        assert not [name for name in disk.names("orders-0") if name.endswith(".cleaned")]
        assert _newest(log) == newest
        disk.capacity = None
        append(log)
        assert log.end_offset == 13
    assert refused > 5


def _newest(log: Log) -> dict[bytes | None, int]:
    return {record.key: record.offset for data in stored(log) for record in read_records(data)}
