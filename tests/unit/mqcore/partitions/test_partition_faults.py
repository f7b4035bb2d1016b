"""A partition on a disk that is full, fails, or has damaged bytes."""

from __future__ import annotations

import errno
import struct

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import Offset
from mqcore.partitions.reads import ReadRequest
from mqcore.partitions.waiting_requests import CommitOutcome, StorageFault
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.helpers import (
    DURABLE,
    NOW_MS,
    PartitionHarness,
    batch,
    error_name,
    offsets_of,
)


def test_a_full_disk_refuses_produces_but_serves_fetches_until_there_is_space() -> None:
    disk = MemoryDisk()
    harness = PartitionHarness(disk=disk)
    harness.append(batch(b"a"))
    disk.capacity = 0
    assert error_name(harness.append(batch(b"b" * 100))) == "KAFKA_STORAGE_ERROR"
    with pytest.raises(OSError, match=r"full|space|written"):
        harness.partition.append_records([Record(0, NOW_MS, b"k", b"v" * 100)])
    assert harness.fetch(0) == [0]
    assert not harness.partition.is_offline
    disk.capacity = None
    assert offsets_of(harness.append(batch(b"b" * 100))) == (1, 2)
    assert harness.fetch(0) == [0, 1]


def test_an_idempotent_batch_refused_by_a_full_disk_may_be_sent_again() -> None:
    disk = MemoryDisk()
    harness = PartitionHarness(disk=disk)
    disk.capacity = 0
    assert error_name(harness.append(batch(b"b" * 100, producer=7, sequence=0))) == "KAFKA_STORAGE_ERROR"
    disk.capacity = None
    assert offsets_of(harness.append(batch(b"b" * 100, producer=7, sequence=0))) == (0, 1)


def test_a_failed_write_takes_the_partition_offline_and_fails_all_waiting_requests() -> None:
    disk = MemoryDisk()
    harness = PartitionHarness(DURABLE, disk)
    outcomes: list[CommitOutcome] = []
    woken: list[bool] = []
    harness.partition.watchers.add("fetch", lambda: woken.append(True))
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    disk.fail("append", errno.EIO)
    assert error_name(harness.append()) == "KAFKA_STORAGE_ERROR"
    assert harness.partition.is_offline and woken
    assert len(outcomes) == 1 and isinstance(outcomes[0], StorageFault)
    assert error_name(harness.append()) == "KAFKA_STORAGE_ERROR"
    assert error_name(harness.partition.read(ReadRequest(0, 10))) == "KAFKA_STORAGE_ERROR"
    assert error_name(harness.partition.delete_records(0)) == "KAFKA_STORAGE_ERROR"
    harness.partition.when_committed(Offset(end), outcomes.append)
    assert isinstance(outcomes[1], StorageFault)


def test_a_failed_sync_acknowledges_nothing_and_is_not_retried() -> None:
    disk = MemoryDisk()
    harness = PartitionHarness(DURABLE, disk)
    outcomes: list[CommitOutcome] = []
    _, end = offsets_of(harness.append())
    harness.partition.when_committed(Offset(end), outcomes.append)
    disk.fail("sync", errno.EIO)
    harness.sync()
    assert isinstance(outcomes[0], StorageFault) and harness.partition.high_watermark == 0
    harness.requested.append(harness.partition)
    harness.sync()  # the disk would succeed now
    assert harness.partition.high_watermark == 0


def test_a_log_found_corrupt_by_a_read_goes_offline() -> None:
    harness = PartitionHarness()
    harness.append(batch(b"a" * 100))
    harness.append(batch(b"b" * 100))
    segment = harness.partition.log.segments.active
    content = bytearray(segment.file.read(0, segment.size))
    struct.pack_into(">i", content, 8, 3)  # a length no batch can have
    segment.file.truncate(0)
    segment.file.append([content])
    outcome = harness.partition.read(ReadRequest(1, 150))
    assert error_name(outcome) == "KAFKA_STORAGE_ERROR"
    assert harness.partition.is_offline
