"""All partitions of a data folder: they come, go, come again, and nothing of one leaks into another."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from uuid import UUID

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, TopicPartition, kafka_uuid
from mqcore.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.stage import NAME, batch, placed

OLD, NEW = UUID(int=1), UUID(int=2)
SMALL = {"segment.bytes": "1024"}


class HeldFlusher(Flusher):
    """Syncs when told, on this thread."""

    def __init__(self) -> None:
        self.requested: list[Partition] = []

    def request(self, partition: Partition) -> None:
        self.requested.append(partition)

    def settle(self, partition: Partition) -> None:
        pass

    def run(self) -> None:
        while self.requested:
            partition = self.requested.pop()
            partition.log.sync()
            partition.synced()


class Folder:
    """A data folder and the process that works on it, which may crash and come again."""

    def __init__(self, seed: int = 0) -> None:
        self.disk = MemoryDisk(seed)
        self.clock = VirtualClock()
        self.begin(clean=False)

    def begin(self, *, clean: bool) -> HostedPartitions:
        self.flusher = HeldFlusher()
        self.hosted = HostedPartitions(self.disk, self.clock, self.flusher, clean=clean, producer_expiration_ms=60_000)
        return self.hosted

    def crash(self) -> HostedPartitions:
        self.disk.crash("kill")
        return self.begin(clean=False)

    def open(
        self, topic_id: UUID = OLD, settings: Mapping[str, str] | None = None, name: TopicPartition = NAME
    ) -> Partition:
        opened = self.hosted.open(name, topic_id, LeaderEpoch(0), settings or {})
        assert opened is not None, self.hosted.offline
        return opened

    def append(self, partition: Partition, count: int = 1, size: int = 10) -> None:
        for _ in range(count):
            placed(partition.append(batch(b"x" * size, timestamp=self.clock.wall_ms()), self.clock.wall_ms()))


def test_a_partition_is_found_by_name_and_by_id_until_it_is_removed() -> None:
    folder = Folder()
    partition = folder.open()
    assert folder.hosted.get("orders", 0) is partition is folder.hosted.by_id(OLD, 0)
    assert list(folder.hosted) == [partition] and len(folder.hosted) == 1
    folder.hosted.remove(NAME)
    assert folder.hosted.get("orders", 0) is None and folder.hosted.by_id(OLD, 0) is None
    assert partition.offline is not None
    assert f"{NAME}/" not in folder.disk.names("")
    folder.hosted.expire()
    assert not [name for name in folder.disk.names("") if "orders" in name]


def test_the_folder_says_whose_it_is_as_kafka_writes_it() -> None:
    folder = Folder()
    folder.open()
    assert (
        folder.disk.read_whole("orders-0/partition.metadata") == f"version: 0\ntopic_id: {kafka_uuid(OLD)}\n".encode()
    )


def test_records_survive_a_crash_and_come_back_with_their_offsets() -> None:
    folder = Folder()
    folder.append(folder.open(), 5)
    folder.crash()
    assert folder.open().high_watermark == 5


def test_a_topic_made_again_begins_at_zero_and_keeps_its_records_through_the_next_start() -> None:
    folder = Folder()
    old = folder.open()
    folder.append(old, 10)
    old.delete_records(8)
    folder.hosted.checkpoint()
    folder.hosted.remove(NAME)
    new = folder.open(NEW)
    assert (new.log_start_offset, new.high_watermark) == (0, 0)
    folder.append(new, 3)
    folder.crash()
    again = folder.open(NEW)
    assert (again.log_start_offset, again.high_watermark) == (0, 3)


def test_a_topic_deleted_while_the_power_went_does_not_haunt_the_next_of_its_name() -> None:
    """The metadata say it is gone; the folder and the checkpoints are still those of the old topic."""
    folder = Folder()
    old = folder.open()
    folder.append(old, 10)
    old.delete_records(8)
    folder.hosted.checkpoint()
    folder.crash()
    new = folder.open(NEW)
    assert (new.log_start_offset, new.high_watermark) == (0, 0)
    folder.append(new, 3)
    folder.crash()
    assert folder.open(NEW).high_watermark == 3


def test_checkpoints_of_partitions_that_are_not_open_yet_outlive_a_new_one_of_an_old_name() -> None:
    folder = Folder()
    other = TopicPartition("other", 0)
    for name in (NAME, other):
        partition = folder.open(OLD, name=name)
        folder.append(partition, 10)
        partition.delete_records(8)
    folder.hosted.checkpoint()
    folder.crash()
    folder.open(NEW)  # rewrites the checkpoints, while `other` is still closed
    folder.crash()
    folder.open(NEW)
    assert folder.open(OLD, name=other).log_start_offset == 8


def test_the_log_start_is_kept_by_the_checkpoint() -> None:
    folder = Folder()
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(7)
    folder.hosted.checkpoint()
    folder.crash()
    assert folder.open().log_start_offset == 7


def test_a_topic_whose_name_is_as_long_as_can_be_is_deleted() -> None:
    folder = Folder()
    name = TopicPartition("n" * 249, 12345)
    folder.open(name=name)
    folder.hosted.remove(name)
    (left,) = [entry for entry in folder.disk.names("") if entry.endswith("-delete/")]
    assert len(left.rstrip("/")) <= 255
    folder.hosted.expire()
    assert left not in folder.disk.names("")


def test_a_folder_that_no_topic_has_is_put_aside_and_not_deleted() -> None:
    folder = Folder()
    folder.append(folder.open())
    long = TopicPartition("n" * 249, 1)
    folder.open(name=long)
    folder.crash()
    folder.hosted.put_strays_aside()
    folder.hosted.expire()
    strays = [name for name in folder.disk.names("") if name.endswith("-stray/")]
    assert len(strays) == 2 and all(len(name) <= 256 for name in strays)
    assert folder.open().high_watermark == 0


def test_a_folder_that_cannot_be_renamed_does_not_stop_the_deletion() -> None:
    folder = Folder()
    folder.open()
    folder.disk.fail("rename", errno.EIO)
    folder.hosted.remove(NAME)
    assert folder.hosted.get("orders", 0) is None


def test_a_corrupt_log_is_offline_alone_and_its_checkpoints_stay() -> None:
    folder = Folder()
    partition = folder.open(settings=SMALL)
    other = TopicPartition("other", 0)
    folder.append(folder.open(name=other), 2)
    folder.append(partition, 30, 100)
    partition.log.sync()
    folder.hosted.checkpoint()
    base = partition.log.segments.items[0].base_offset
    file = folder.disk.open(f"orders-0/{base:020d}.log")
    content = bytearray(file.read(0, file.size))
    content[80] ^= 0xFF
    file.truncate(0)
    file.append([content])
    points = CheckpointFile(folder.disk, RECOVERY_POINTS)
    folder.crash()
    folder.disk.remove(RECOVERY_POINTS)  # so that everything is verified
    folder.begin(clean=False)
    assert folder.hosted.open(NAME, OLD, LeaderEpoch(0), SMALL) is None
    assert NAME in folder.hosted.offline
    assert folder.open(name=other).high_watermark == 2
    folder.hosted.checkpoint()
    assert other in points.read()
    assert folder.hosted.close() is False


def test_a_log_that_failed_while_running_leaves_no_clean_mark() -> None:
    folder = Folder()
    folder.open()
    assert folder.hosted.close() is True
    folder.begin(clean=True)
    folder.open().go_offline("corrupt")
    assert folder.hosted.close() is False


def test_an_offline_partition_keeps_its_place_in_the_checkpoints() -> None:
    folder = Folder()
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(6)
    folder.hosted.checkpoint()
    folder.crash()
    folder.disk.fail("open", errno.EIO, times=100)
    assert folder.hosted.open(NAME, OLD, LeaderEpoch(0), {}) is None
    folder.disk.crash("kill")  # ends the fault, too
    folder.hosted.checkpoint()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 6}


def test_after_a_crash_a_durable_topic_shows_nothing_that_is_not_on_disk() -> None:
    folder = Folder()
    partition = folder.open(settings={"flush.messages": "1"})
    folder.append(partition, 3)
    folder.crash()
    partition = folder.open(settings={"flush.messages": "1"})
    assert partition.high_watermark == partition.log.flushed_offset == 3
    folder.disk.crash("power")
    folder.begin(clean=False)
    assert folder.open(settings={"flush.messages": "1"}).high_watermark == 3


def test_retention_and_silent_producers_are_seen_to() -> None:
    folder = Folder()
    partition = folder.open(settings={**SMALL, "retention.ms": "1000", "file.delete.delay.ms": "0"})
    folder.append(partition, 30, 100)
    placed(partition.append(batch(producer=5, timestamp=folder.clock.wall_ms()), folder.clock.wall_ms()))
    folder.hosted.expire()
    assert partition.log_start_offset == 0 and len(partition.producers) == 1
    folder.clock.advance(120_000)
    folder.hosted.expire()
    assert partition.log_start_offset == 31 and len(partition.producers) == 0


def test_logs_are_synced_once_they_have_been_dirty_for_flush_ms() -> None:
    folder = Folder()
    partition = folder.open(settings={"flush.ms": "1000"})
    folder.append(partition)
    folder.hosted.sync_overdue(5_000)
    folder.hosted.sync_overdue(5_999)
    assert not folder.flusher.requested
    folder.hosted.sync_overdue(6_000)
    assert folder.flusher.requested == [partition]
    folder.flusher.run()
    folder.hosted.sync_overdue(9_000)
    assert not folder.flusher.requested
    folder.append(partition)
    folder.hosted.sync_all()
    assert folder.flusher.requested == [partition]


def test_the_disk_is_full_before_it_is_and_has_room_again() -> None:
    folder = Folder()
    partition = folder.open()
    folder.disk.capacity = 10_000
    folder.hosted.look_at_space(5_000)
    assert not folder.hosted.disk_is_full
    folder.append(partition, 1, 6_000)
    folder.hosted.look_at_space(5_000)
    assert folder.hosted.disk_is_full
    folder.disk.capacity = 20_000
    folder.hosted.look_at_space(5_000)
    assert not folder.hosted.disk_is_full


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"\xff\xfe", b"topic_id: ???\n"])
def test_a_damaged_note_in_the_folder_does_not_cost_its_records(content: bytes) -> None:
    folder = Folder()
    folder.append(folder.open(), 4)
    folder.crash()
    folder.disk.replace("orders-0/partition.metadata", content)
    assert folder.open().high_watermark == 4
