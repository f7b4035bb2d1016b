"""One workload on a log, with a crash before, during and after every single change on the disk.

The workload appends, syncs, checkpoints, rolls, changes the leader, truncates, applies retention, stops cleanly and
starts again. After any crash the next start must find what was promised until then.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Literal

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.log.clean_mark import take_clean_mark, write_clean_mark
from mqcore.log.doctor import cut_partition
from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.log.examination import open_segments
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.log.validity import find_first_invalid
from mqcore.wire.batches import read_header
from tests.unit.mqcore.log.helpers import LastSequences, append, batch, open_log, place, stored

NAME = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=450, index_interval_bytes=60, retention_ms=-1, file_delete_delay_ms=0)


@dataclass
class Workload:
    """What was promised so far: `batches` were appended, and everything below `durable` was synced."""

    disk: MemoryDisk
    batches: list[bytes] = field(default_factory=list)
    in_flight: bytes | None = None
    durable: int = 0
    start: int = 0
    cut_to: int | None = None  # a truncation that may or may not have happened
    clean_stop: bool = False

    def open(self) -> Log:
        mark = take_clean_mark(self.disk)
        return open_log(
            self.disk,
            CONFIG,
            clean=mark is not None,
            recovery_point=CheckpointFile(self.disk, RECOVERY_POINTS).read().get(NAME, 0),
            start_offset=CheckpointFile(self.disk, LOG_STARTS).read().get(NAME, 0),
            observer=LastSequences(),
        )

    def append(self, log: Log, number: int, epoch: int) -> None:
        data = batch([b"%d" % number * 20, b"x"], producer=number % 2, sequence=number * 2)
        copy = bytearray(data)
        append_to = log.end_offset
        self.in_flight = bytes(_placed(copy, append_to, epoch))
        append(log, data, epoch=epoch)
        self.batches.append(self.in_flight)
        self.in_flight = None

    def sync(self, log: Log) -> None:
        self.durable = log.sync()
        CheckpointFile(self.disk, RECOVERY_POINTS).write({NAME: log.flushed_offset})

    def truncate(self, log: Log, target: int) -> None:
        CheckpointFile(self.disk, RECOVERY_POINTS).write({NAME: min(target, log.flushed_offset)})
        self.cut_to = target
        log.truncate_to(target)
        self.batches = [data for data in self.batches if read_header(data).next_offset <= target]
        self.durable, self.cut_to = min(self.durable, target), None

    def delete(self, log: Log, offset: int) -> None:
        self.start = offset
        log.advance_start(offset)
        CheckpointFile(self.disk, LOG_STARTS).write({NAME: offset})
        log.apply_retention(0, limit=log.end_offset)
        log.apply_retention(1, limit=log.end_offset)

    def run(self) -> None:
        log = self.open()
        for number in range(7):
            self.append(log, number, epoch=0)
        self.sync(log)
        for number in range(7, 12):
            self.append(log, number, epoch=1)
        self.truncate(log, 18)
        for number in range(12, 16):
            self.append(log, number, epoch=2)
        self.delete(log, 8)
        self.append(log, 16, epoch=2)
        self.sync(log)
        self.append(log, 17, epoch=3)
        log.close()
        self.durable = log.end_offset
        CheckpointFile(self.disk, RECOVERY_POINTS).write({NAME: log.end_offset})
        write_clean_mark(self.disk, 1)
        self.clean_stop = True
        log = self.open()
        assert log.recovery.clean
        self.append(log, 18, epoch=3)

    def unsynced(self) -> list[bytes]:
        written = [*self.batches, *([] if self.in_flight is None else [self.in_flight])]
        return [data for data in written if read_header(data).next_offset > self.durable]

    def check(self, kind: str) -> None:
        """Check that a start finds what was promised, and that the log accepts a batch."""
        log = self.open()
        found = stored(log)
        wanted = [data for data in self.batches if read_header(data).next_offset > log.start_offset]
        assert log.start_offset <= self.start
        if self.in_flight is not None and len(found) > len(wanted):
            wanted.append(self.in_flight)
        assert found == wanted[: len(found)]
        end_min = self.durable if kind == "power" else _end(self.batches)
        if self.cut_to is not None:
            end_min = min(end_min, self.cut_to)
        assert log.end_offset >= end_min
        added = append(log, epoch=9)
        assert stored(log) == [*found, added]


def _placed(data: bytearray, offset: int, epoch: int) -> bytearray:

    place(data, offset, epoch)
    return data


def _end(batches: list[bytes]) -> int:
    return read_header(batches[-1]).next_offset if batches else 0


def _calls() -> int:
    disk = MemoryDisk()
    Workload(disk).run()
    return disk.changes


CALLS = _calls()


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_at_any_change_breaks_no_promise(when: When, kind: Literal["kill", "power"]) -> None:
    corrupt = 0
    for nth in range(1, CALLS + 1):
        disk = MemoryDisk(nth)
        workload = Workload(disk)
        disk.crash_at(nth, when)
        with pytest.raises(Crashed):
            workload.run()
        disk.crash(kind)
        try:
            workload.check(kind)
        except CorruptLog:
            assert kind == "power"
            # A later batch survived without an earlier one: then two are unsynced, and a cut repairs the log.
            assert len(workload.unsynced()) >= 2, "nothing unsynced was lost, but the log is called corrupt"
            cut_at_first_invalid(disk)
            workload.check(kind)
            corrupt += 1
    assert (corrupt > 0) is (kind == "power")


def cut_at_first_invalid(disk: MemoryDisk) -> None:
    """What an operator does with `mqcore doctor --cut`."""
    items = open_segments(disk, str(NAME))
    invalid = find_first_invalid(items).first_invalid
    assert invalid is not None
    cut_partition(disk, NAME, items[invalid.segment_index].base_offset, invalid.position, invalid.next_offset)


def test_the_workload_makes_enough_changes_for_the_crash_tests_to_mean_something() -> None:
    assert CALLS > 100


@pytest.mark.parametrize("kind", ["open", "append", "truncate", "sync", "rename", "remove", "sync_directory", "read"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_fault_of_any_call_breaks_no_promise(kind: str, error: int) -> None:
    """Whatever the log answers, the next start finds what was promised until then."""
    faults = 0
    for skip in range(60):
        disk = MemoryDisk(skip)
        workload = Workload(disk)
        disk.fail(kind, error, skip=skip)  # type: ignore[arg-type]
        try:
            workload.run()
        except (OSError, LogFailed):
            faults += 1
        disk.crash("kill")
        workload.check("kill")
    assert faults > 0
