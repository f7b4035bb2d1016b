"""Syncs and checkpoints: what they contain, and that a crash or an offline partition does not spoil them."""

from __future__ import annotations

import asyncio
import errno

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemClock, SystemThreads
from mqcore.identity import LeaderEpoch, TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.metrics import Cell
from mqcore.partitions.durability import Durability
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.hosted import HostedPartitions
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import OLD, SMALL, DataFolder
from tests.unit.mqcore.partitions.helpers import NAME, batch, lead_alone, offsets_of


def test_the_log_start_survives_in_the_checkpoint() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(7)
    folder.durability.write_checkpoints()
    folder.crash()
    assert folder.open().log_start_offset == 7


def test_a_log_that_failed_while_running_leaves_no_clean_mark() -> None:
    folder = DataFolder()
    folder.open()
    assert folder.durability.close() is True
    folder.begin(clean=True)
    folder.open().go_offline("corrupt")
    assert folder.durability.close() is False


def test_an_offline_partition_keeps_its_entries_in_the_checkpoints() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(6)
    folder.durability.write_checkpoints()
    folder.crash()
    folder.disk.fail("open", errno.EIO, times=100)
    assert folder.hosted.open(NAME, OLD, {}) is None
    folder.disk.crash("kill")  # also ends the fault
    folder.durability.write_checkpoints()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 6}


def test_after_a_crash_a_durable_topic_serves_only_durable_records() -> None:
    folder = DataFolder()
    partition = folder.open(settings={"flush.messages": "1"})
    folder.append(partition, 3)
    folder.crash()
    partition = folder.open(settings={"flush.messages": "1"})
    assert partition.high_watermark == partition.log.flushed_offset == 3
    folder.disk.crash("power")
    folder.begin(clean=False)
    assert folder.open(settings={"flush.messages": "1"}).high_watermark == 3


def test_logs_are_synced_after_flush_ms() -> None:
    folder = DataFolder()
    partition = folder.open(settings={"flush.ms": "1000"})
    folder.append(partition)
    folder.durability.sync_overdue(5_000)
    folder.durability.sync_overdue(5_999)
    assert not folder.flusher.requested
    folder.durability.sync_overdue(6_000)
    assert folder.flusher.requested == [partition]
    folder.flusher.run_requested()
    folder.durability.sync_overdue(9_000)
    assert not folder.flusher.requested
    folder.append(partition)
    folder.durability.sync_all()
    assert folder.flusher.requested == [partition]


def test_stored_offsets_above_the_end_of_a_cut_log_are_removed() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.append(partition, 3)
    partition.cleaned_to = 3
    partition.log.sync()
    folder.durability.write_checkpoints()
    folder.durability.write_cleaner_checkpoint()
    partition.log.truncate_to(2)  # as `doctor --cut` does
    for _ in range(2):  # a second crash comes before the next checkpoint
        folder.crash()
        partition = folder.open()
        assert partition.cleaned_to == 0
        assert not CheckpointFile(folder.disk, RECOVERY_POINTS).read()
        assert not CheckpointFile(folder.disk, CLEANER_OFFSETS).read()
        folder.append(partition, 5)


def test_a_checkpoint_drops_deleted_partitions_from_every_file() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.append(partition, 3)
    partition.log.sync()
    partition.delete_records(1)
    partition.cleaned_to = 2
    folder.durability.write_checkpoints()
    folder.durability.write_cleaner_checkpoint()
    files = [CheckpointFile(folder.disk, file) for file in (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)]
    assert all(file.read() for file in files)
    folder.hosted.remove(NAME)
    folder.durability.write_checkpoints()
    assert not any(file.read() for file in files)


def running_flusher() -> Flusher:
    return Flusher(lambda fault: None, Cell(), SystemClock(asyncio.get_running_loop()), SystemThreads())


def test_a_checkpoint_contains_what_its_own_syncs_made_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        disk, clock = MemoryDisk(), VirtualClock()
        flusher = running_flusher()
        hosted = HostedPartitions(disk, clock, flusher, is_clean=False)
        durability = Durability(hosted, flusher, clock, SystemThreads())
        partitions = [hosted.open(TopicPartition("orders", index), OLD, SMALL) for index in range(5)]
        for partition in partitions:
            assert partition is not None
            lead_alone(partition, LeaderEpoch(1))
            for _ in range(40):
                offsets_of(partition.append(batch(), clock.wall_ms()))
        await durability.sync_and_checkpoint(10)
        assert CheckpointFile(disk, RECOVERY_POINTS).read() == {p.name: 40 for p in hosted}
        assert {p.log.recovery_point for p in hosted} == {40}
        flusher.close()

    asyncio.run(main())


def test_a_checkpoint_is_written_even_if_a_sync_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        folder = DataFolder()
        flusher = running_flusher()
        monkeypatch.setattr(flusher, "request_sync", lambda partition: None)
        clock = SystemClock(asyncio.get_running_loop())
        durability = Durability(folder.hosted, flusher, clock, SystemThreads())
        partition = folder.open(settings=SMALL)
        offsets_of(partition.append(batch(), folder.clock.wall_ms()))
        await durability.sync_and_checkpoint(0.01)
        assert CheckpointFile(folder.disk, RECOVERY_POINTS).read() == {NAME: 0}
        flusher.close()

    asyncio.run(main())


def test_a_crash_after_many_rolls_replays_nothing_below_the_checkpoint() -> None:
    folder = DataFolder()
    partition = folder.open(settings=SMALL)
    for number in range(400):
        offsets_of(partition.append(batch(producer=1, sequence=number), folder.clock.wall_ms()))
        if number == 100:
            folder.durability.sync_all()
            folder.flusher.run_requested()
        if number == 200:
            folder.durability.write_checkpoints()
    folder.crash()
    again = folder.open(settings=SMALL)
    assert again.log.end_offset == 400
    assert again.log.recovery.replayed_batches == 0 and again.log.recovery.scanned_batches < 310
