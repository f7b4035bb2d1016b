"""A data folder in memory, and the process that works on it, which may crash and start again."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemThreads
from mqcore.housekeeping import Work
from mqcore.identity import LeaderEpoch, TopicPartition
from mqcore.log.checkpoints import RECOVERY_POINTS
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.durability import Durability
from mqcore.partitions.flusher import Flusher, SyncedLog
from mqcore.partitions.free_space import FreeSpaceMonitor
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.retention_sweep import RetentionSweep
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.helpers import NAME, batch, lead_alone, offsets_of

OLD, NEW = UUID(int=1), UUID(int=2)  # the ids of a deleted topic, and of the next one with its name
SMALL = {"segment.bytes": "1024"}


class HeldFlusher(Flusher):
    """Collects requests, and syncs on this thread when a test calls `run_requested`."""

    def __init__(self) -> None:
        self.requested: list[SyncedLog] = []

    def request_sync(self, partition: SyncedLog) -> None:
        self.requested.append(partition)

    def wait_for_sync(self, partition: SyncedLog) -> None:
        pass

    def run_requested(self) -> None:
        while self.requested:
            partition = self.requested.pop()
            if not partition.is_offline:
                partition.log.sync()
                partition.on_synced()


class DataFolder:
    """A data folder in memory, and the broker rooms that use it."""

    def __init__(self, seed: int = 0) -> None:
        self.disk = MemoryDisk(seed)
        self.clock = VirtualClock()
        self.begin(clean=False)

    def begin(self, *, clean: bool) -> HostedPartitions:
        self.flusher = HeldFlusher()
        self.hosted = HostedPartitions(self.disk, self.clock, self.flusher, is_clean=clean)
        self.durability = Durability(self.hosted, self.flusher, self.clock, SystemThreads())
        self.retention = RetentionSweep(self.hosted, self.clock, producer_expiration_ms=60_000)
        self.free_space = FreeSpaceMonitor(self.disk)
        return self.hosted

    def cleaner(self, *, buffer_bytes: int) -> Cleaner:
        return Cleaner(
            self.disk,
            self.hosted,
            self.durability,
            self.clock,
            SystemThreads(),
            buffer_bytes=buffer_bytes,
            producer_expiration_ms=60_000,
        )

    def work(self, cleaner: Cleaner) -> Work:
        return Work(self.hosted, self.durability, self.retention, self.free_space, cleaner)

    def crash(self) -> HostedPartitions:
        self.disk.crash("kill")
        return self.begin(clean=False)

    def open(
        self, topic_id: UUID = OLD, settings: Mapping[str, str] | None = None, name: TopicPartition = NAME
    ) -> Partition:
        opened = self.hosted.open(name, topic_id, settings or {})
        assert opened is not None, self.hosted.open_failures
        lead_alone(opened, LeaderEpoch(0))
        return opened

    def append(self, partition: Partition, count: int = 1, size: int = 10) -> None:
        for _ in range(count):
            offsets_of(partition.append(batch(b"x" * size, timestamp=self.clock.wall_ms()), self.clock.wall_ms()))


def spoil(folder: DataFolder, name: TopicPartition = NAME) -> None:
    """Flip a bit in the first batch of a log, before other batches."""
    path = next(f"{name}/{file}" for file in folder.disk.names(str(name)) if file.endswith(".log"))
    file = folder.disk.open(path)
    content = bytearray(file.read(0, file.size))
    content[80] ^= 0xFF
    file.truncate(0)
    file.append([content])


def corrupt_at_start(folder: DataFolder) -> None:
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(8)
    folder.durability.write_checkpoints()
    folder.disk.remove(RECOVERY_POINTS)  # so that everything is verified
    spoil(folder)
    folder.crash()
    assert folder.hosted.open(NAME, OLD, {}) is None


def unreadable_at_start(folder: DataFolder) -> None:
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(8)
    folder.durability.write_checkpoints()
    folder.crash()
    folder.disk.fail("open", errno.EMFILE)
    assert folder.hosted.open(NAME, OLD, {}) is None
