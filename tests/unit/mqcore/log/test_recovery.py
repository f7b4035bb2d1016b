"""Opening a log after a crash: torn tails are cut, leftovers removed, and recovery itself may crash."""

from __future__ import annotations

from random import Random

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, append, open_log, stored
from tests.unit.mqcore.log.recovering import CONFIG, SEGMENT, batches, disk_with, filled


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_complete_batch() -> None:
    parts = batches(4)
    whole = b"".join(parts)
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    for length in range(len(parts[0]), len(whole) + 1):  # the first batch is durable, the other three are not
        disk = disk_with(whole[:length])
        log = open_log(disk, recovery_point=2)
        survived = sum(end <= length for end in ends) - 1
        assert stored(log) == parts[:survived], length
        assert log.end_offset == 2 * survived
        assert disk.size(SEGMENT) == ends[survived]
        assert log.recovery.cut_bytes == length - ends[survived]
        assert (log.recovery.cut_reason is None) == (length in ends)


@pytest.mark.parametrize("garbage", [bytes(700), b"\xff" * 700, Random(1).randbytes(5000)], ids=["0", "1", "random"])
def test_a_tail_of_zeros_or_garbage_is_cut(garbage: bytes) -> None:
    parts = batches(3)
    log = open_log(disk_with(*parts, garbage))
    assert stored(log) == parts
    assert log.recovery.cut_bytes == len(garbage)


@pytest.mark.parametrize("length", [0, 48, 49, 50, 2**31 - 1, -1, -(2**31)])
def test_a_garbage_length_is_never_trusted(length: int) -> None:
    parts = batches(2)
    tail = bytearray(batches(3)[2])
    tail[8:12] = (length & 0xFFFFFFFF).to_bytes(4, "big")
    log = open_log(disk_with(*parts, bytes(tail)))
    assert stored(log) == parts


def test_a_tail_written_out_of_order_is_cut_if_no_valid_batch_is_left() -> None:
    parts = batches(3, size=1500)
    whole = bytearray(b"".join(parts))
    start = len(parts[0])
    for sector in range(start // 512 + 1, len(whole) // 512, 2):
        whole[sector * 512 : (sector + 1) * 512] = bytes(512)
    log = open_log(disk_with(bytes(whole)), recovery_point=2)
    assert stored(log) == parts[:1]


def test_a_later_segment_without_a_valid_batch_is_cut_with_the_tail() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1][:-1])
    disk.open(f"{DIRECTORY}/00000000000000000004.log", create=True)
    disk.open(f"{DIRECTORY}/00000000000000000006.log", create=True).append([bytes(99)])
    log = open_log(disk)
    assert stored(log) == parts[:1]
    assert [name for name in disk.names(DIRECTORY) if name.endswith(".log")] == ["00000000000000000000.log"]
    assert log.recovery.cut_bytes == len(parts[1]) - 1 + 99


def test_after_a_cut_the_log_continues_there() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1][:50])
    log = open_log(disk)
    added = append(log)
    assert stored(log) == [parts[0], added]
    disk.crash("kill")
    assert stored(open_log(disk)) == [parts[0], added]


def test_a_clean_start_scans_and_replays_nothing() -> None:
    disk = MemoryDisk()
    wanted, observer = filled(disk, close=True)
    again = LastSequences()
    log = open_log(disk, CONFIG, clean=True, observer=again)
    assert (log.recovery.scanned_batches, log.recovery.replayed_batches) == (0, 0)
    assert (stored(log), again.last) == (wanted, observer.last)
    assert log.flushed_offset == log.end_offset == 25
    assert not log.needs_sync()


def test_a_clean_stop_of_an_unchanged_log_writes_nothing() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=True)
    before = disk.changes
    open_log(disk, CONFIG, clean=True).close()
    assert disk.changes == before
    log = open_log(disk, CONFIG, clean=True)
    wanted.append(append(log))
    log.close()
    disk.crash("power")
    log = open_log(disk, CONFIG, clean=True)
    assert stored(log) == wanted
    log.truncate_to(25)
    log.close()
    disk.crash("power")
    assert stored(open_log(disk, CONFIG, clean=True)) == wanted[:25]


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=False)
    disk.crash("kill")
    log = open_log(disk, CONFIG, recovery_point=20)
    assert 0 < log.recovery.scanned_batches < 25
    assert log.recovery.scanned_segments < len(log.segments.items)
    assert stored(log) == wanted
    assert log.flushed_offset == 20


def test_leftovers_of_a_crash_are_removed() -> None:
    disk = disk_with(*batches(1))
    leftovers = [
        "00000000000000000009.log.deleted",
        "00000000000000000000.log.cleaned",
        "x.tmp",
        "00000000000000000009.index",
    ]
    for name in leftovers:
        disk.open(f"{DIRECTORY}/{name}", create=True)
    log = open_log(disk)
    assert sorted(log.recovery.removed) == sorted(leftovers)
    assert disk.names(DIRECTORY) == ["00000000000000000000.log"]


def test_a_log_start_beyond_the_surviving_end_leaves_an_empty_log_there() -> None:
    log = open_log(disk_with(*batches(2)), start_offset=10)
    assert (log.start_offset, log.end_offset) == (10, 10)
    append(log)
    assert log.end_offset == 11


def test_a_recovery_that_crashes_at_any_call_is_completed_by_the_next_one() -> None:
    parts = batches(6)

    def damaged() -> MemoryDisk:
        disk = disk_with(*parts[:3])
        disk.open(f"{DIRECTORY}/00000000000000000006.log", create=True).append([parts[3], parts[4], parts[5][:40]])
        disk.open(f"{DIRECTORY}/00000000000000000010.log", create=True)
        disk.open(f"{DIRECTORY}/00000000000000000012.log.deleted", create=True)
        for name in ("00000000000000000000.log", "00000000000000000006.log"):
            disk.open(f"{DIRECTORY}/{name}").sync()
        disk.sync_directory(DIRECTORY)
        disk.sync_directory("")
        return disk

    disk = damaged()
    before = disk.changes
    wanted = stored(open_log(disk))
    calls = disk.changes - before
    assert wanted == parts[:5]
    assert calls >= 8
    for kind in ("kill", "power"):
        for nth in range(1, calls + 1):
            disk = damaged()
            disk.crash_at(nth, "after")
            with pytest.raises(Crashed):
                open_log(disk)
            disk.crash(kind)
            assert stored(open_log(disk)) == wanted, (kind, nth)


def test_recovering_twice_leaves_the_same_bytes() -> None:
    disk = disk_with(*batches(3), b"torn")
    disk.crash("kill")
    open_log(disk)
    once = {name: disk.read_whole(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)}
    disk.crash("kill")
    log = open_log(disk)
    assert {name: disk.read_whole(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)} == once
    assert log.recovery.cut_reason is None
