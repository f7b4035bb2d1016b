"""All partitions of a data folder: they come, go, come again, and nothing of one leaks into another."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Literal
from uuid import UUID

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import LeaderEpoch, TopicPartition, kafka_uuid
from mqcore.log.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.log.errors import CorruptLog
from mqcore.metrics import Cell
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.folders import STRAY_KEPT_MS
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import Refusal
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.stage import NAME, batch, placed, refused

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


def test_a_partition_that_is_removed_forgets_its_producers() -> None:
    folder = Folder()
    partition = folder.open()
    placed(partition.append(batch(producer=7, timestamp=folder.clock.wall_ms()), folder.clock.wall_ms()))
    assert folder.hosted.producer_budget.count == 1
    folder.hosted.remove(NAME)
    assert folder.hosted.producer_budget.count == 0


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


# ── what belongs to a name goes with its topic ──────────────────────────────────────────────────


def spoil(folder: Folder, name: TopicPartition = NAME) -> None:
    """Flip a bit in the first batch of a log that has more behind it."""
    path = next(f"{name}/{file}" for file in folder.disk.names(str(name)) if file.endswith(".log"))
    file = folder.disk.open(path)
    content = bytearray(file.read(0, file.size))
    content[80] ^= 0xFF
    file.truncate(0)
    file.append([content])


def corrupt_at_start(folder: Folder) -> None:
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(8)
    folder.hosted.checkpoint()
    folder.disk.remove(RECOVERY_POINTS)  # so that everything is verified
    spoil(folder)
    folder.crash()
    assert folder.hosted.open(NAME, OLD, LeaderEpoch(0), {}) is None


def unreadable_at_start(folder: Folder) -> None:
    partition = folder.open()
    folder.append(partition, 10)
    partition.delete_records(8)
    folder.hosted.checkpoint()
    folder.crash()
    folder.disk.fail("open", errno.EMFILE)
    assert folder.hosted.open(NAME, OLD, LeaderEpoch(0), {}) is None


@pytest.mark.parametrize("fault", [corrupt_at_start, unreadable_at_start])
def test_a_topic_whose_partition_is_offline_can_be_deleted_and_made_again(fault: Callable[[Folder], None]) -> None:
    folder = Folder()
    fault(folder)
    assert folder.hosted.names_of(OLD) == [NAME]
    folder.hosted.remove(NAME)
    assert not folder.hosted.offline and not folder.hosted.names_of(OLD)
    again = folder.open(NEW)
    folder.append(again, 5)
    again.delete_records(2)
    folder.hosted.checkpoint()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 2}
    folder.crash()
    again = folder.open(NEW)
    assert (again.log_start_offset, again.high_watermark) == (2, 5)
    folder.hosted.put_strays_aside()
    folder.hosted.expire()
    assert [name for name in folder.disk.names("") if name.startswith("orders")] == ["orders-0/"]
    assert folder.hosted.close() is True


def test_a_partition_that_comes_online_again_wins_over_what_was_kept_for_it() -> None:
    folder = Folder()
    unreadable_at_start(folder)
    assert folder.hosted.retryable() == [(NAME, OLD)]
    folder.hosted.checkpoint()
    partition = folder.open()
    assert not folder.hosted.offline and not folder.hosted.retryable()
    assert (partition.log_start_offset, partition.high_watermark) == (8, 10)
    partition.delete_records(9)
    folder.hosted.checkpoint()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 9}


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_born_without_descriptors_or_space_is_durable_once_it_could_be_opened(clean: bool) -> None:
    for kind, skip in product(("open", "append", "make_directory"), range(4)):
        folder = Folder()
        folder.begin(clean=clean)
        folder.disk.fail(kind, errno.EMFILE, skip=skip)  # type: ignore[arg-type]
        if folder.hosted.open(NAME, OLD, LeaderEpoch(0), {}) is None:
            assert folder.hosted.retryable() == [(NAME, OLD)]
        partition = folder.hosted.get(*NAME) or folder.open()
        for _ in range(2):  # the first append may meet the fault, and may be repeated
            outcome = partition.append(batch(), folder.clock.wall_ms())
            if not isinstance(outcome, Refusal):
                break
        partition.log.sync()
        folder.disk.crash("power")
        folder.begin(clean=False)
        assert folder.open().high_watermark == 1, (kind, skip)


def test_a_log_that_is_corrupt_is_not_tried_again() -> None:
    folder = Folder()
    corrupt_at_start(folder)
    assert folder.hosted.offline and not folder.hosted.retryable()


def life_of_two_topics(folder: Folder) -> Iterator[UUID | None]:
    """Between the steps: which topic the metadata name now."""
    yield OLD
    old = folder.open()
    for _ in range(5):
        old.append(batch(b"old"), folder.clock.wall_ms())
    old.log.sync()
    old.delete_records(3)
    old.cleaned_to = 4
    folder.hosted.checkpoint()
    folder.hosted.checkpoint_cleaner()
    yield None
    folder.hosted.remove(NAME)
    yield NEW
    new = folder.open(NEW)
    for _ in range(2):
        new.append(batch(b"new"), folder.clock.wall_ms())
    new.log.sync()
    yield NEW


def calls_of_both_lives() -> int:
    folder = Folder()
    list(life_of_two_topics(folder))
    return folder.disk.changes


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_at_any_call_leaves_nothing_of_a_deleted_topic_in_the_next_of_its_name(
    kind: Literal["kill", "power"], when: When
) -> None:
    calls, met = calls_of_both_lives(), 0
    assert calls > 30
    for nth, seed in product(range(1, calls + 1), range(6 if kind == "power" else 1)):
        folder, topic = Folder(seed), None
        folder.disk.crash_at(nth, when)
        with pytest.raises(Crashed):
            for topic in life_of_two_topics(folder):  # noqa: B007
                pass
            folder.open(name=TopicPartition("one-more", 0))  # the last call
        folder.disk.crash(kind)
        folder.begin(clean=False)
        if topic is OLD:
            continue
        if topic is None and seed % 2:  # the next start may see that the topic is gone, or already the new one
            folder.hosted.put_strays_aside()
        again = folder.open(NEW)
        met += 1
        values = [record.value for record in replay(again, again.log_start_offset, again.high_watermark)]
        assert set(values) <= {b"new"}, (nth, seed)
        assert (again.log_start_offset, again.cleaned_to) == (0, 0), (nth, seed)
    assert met > 10


def test_offsets_above_the_end_of_a_log_that_was_cut_are_forgotten() -> None:
    folder = Folder()
    partition = folder.open()
    folder.append(partition, 3)
    partition.cleaned_to = 3
    partition.log.sync()
    folder.hosted.checkpoint()
    folder.hosted.checkpoint_cleaner()
    partition.log.truncate_to(2)  # as `doctor --cut` does
    for _ in range(2):  # a second crash comes before the next checkpoint
        folder.crash()
        partition = folder.open()
        assert partition.cleaned_to == 0
        assert not CheckpointFile(folder.disk, RECOVERY_POINTS).read()
        assert not CheckpointFile(folder.disk, CLEANER_OFFSETS).read()
        folder.append(partition, 5)


def test_a_checkpoint_drops_deleted_partitions_from_every_file() -> None:
    folder = Folder()
    partition = folder.open()
    folder.append(partition, 3)
    partition.log.sync()
    partition.delete_records(1)
    partition.cleaned_to = 2
    folder.hosted.checkpoint()
    folder.hosted.checkpoint_cleaner()
    files = [CheckpointFile(folder.disk, file) for file in (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)]
    assert all(file.read() for file in files)
    folder.hosted.remove(NAME)
    folder.hosted.checkpoint()
    assert not any(file.read() for file in files)


def test_a_damaged_note_in_the_folder_is_written_again() -> None:
    folder = Folder()
    folder.append(folder.open(), 1)
    folder.disk.replace("orders-0/partition.metadata", b"")
    folder.crash()
    folder.open()
    folder.crash()
    folder.append(folder.open(NEW))
    assert folder.hosted.get(*NAME).high_watermark == 1  # type: ignore[union-attr]


# ── a fault stays where it is ───────────────────────────────────────────────────────────────────


def test_what_one_partition_meets_in_retention_does_not_keep_the_others_from_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (OSError(errno.EIO, "bad sector"), CorruptLog("orders-1", "0.log", 0, "rotten"), KeyError("a bug")):
        folder = Folder()
        names = [TopicPartition("orders", index) for index in range(3)]
        for name in names:
            partition = folder.open(name=name, settings={**SMALL, "retention.ms": "1000"})
            folder.append(partition, 30, 100)
        folder.clock.advance(120_000)
        monkeypatch.setattr(folder.hosted.get(*names[1]).log, "expire", raising(fault))  # type: ignore[union-attr]
        caplog.clear()
        folder.hosted.expire()
        starts = [partition.log_start_offset for partition in folder.hosted]
        assert starts == [30, 0, 30]
        assert [record.partition for record in caplog.records if record.levelname == "ERROR"] == ["orders-1"]  # type: ignore[attr-defined]


def raising(fault: Exception) -> Callable[..., None]:
    def act(*_: object, **__: object) -> None:
        raise fault

    return act


def test_a_folder_that_cannot_be_removed_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    for index in range(3):
        folder.open(name=TopicPartition("orders", index))
        folder.hosted.remove(TopicPartition("orders", index))
    folder.disk.fail("remove", errno.EIO)
    folder.hosted.expire()
    assert len([name for name in folder.disk.names("") if name.endswith("-delete/")]) == 1
    assert "orders-0" in str(caplog.records[-1].__dict__["folder"])
    folder.hosted.expire()
    assert not [name for name in folder.disk.names("") if name.endswith("-delete/")]


def test_a_start_goes_on_when_folders_cannot_be_put_aside_or_get_the_same_name() -> None:
    folder = Folder()
    for last in ("a", "b"):  # as long as can be, different in the last character
        folder.open(name=TopicPartition("n" * 248 + last, 1))
    folder.open(name=TopicPartition("another", 0))
    folder.crash()
    folder.disk.fail("rename", errno.EIO)
    folder.hosted.put_strays_aside()
    names = folder.disk.names("")
    assert len([name for name in names if name.endswith("-stray/")]) == 2
    assert "another-0/" in names


def test_strays_are_removed_after_a_week() -> None:
    folder = Folder()
    folder.append(folder.open())
    folder.crash()
    folder.hosted.put_strays_aside()
    folder.clock.advance(STRAY_KEPT_MS - 1)
    folder.hosted.expire()
    assert [name for name in folder.disk.names("") if name.endswith("-stray/")]
    folder.clock.advance(1)
    folder.hosted.expire()
    assert not [name for name in folder.disk.names("") if name.startswith("orders")]


def test_a_partition_that_goes_offline_while_serving_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    partition = folder.open(settings=SMALL)
    folder.append(partition, 30, 100)
    folder.disk.fail("append", errno.EIO)
    for _ in range(2):
        assert refused(partition.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    lines = [record for record in caplog.records if record.getMessage() == "partition offline"]
    assert [(line.partition, line.levelname) for line in lines] == [("orders-0", "ERROR")]  # type: ignore[attr-defined]
    assert "Input/output error" in lines[0].reason  # type: ignore[attr-defined]


def test_deleting_a_topic_is_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    folder.open()
    folder.hosted.remove(NAME)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_checkpoint_holds_what_its_own_syncs_made_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        disk, clock = MemoryDisk(), VirtualClock()
        flusher = Flusher(lambda fault: None, Cell())
        hosted = HostedPartitions(disk, clock, flusher, clean=False, producer_expiration_ms=60_000)
        partitions = [hosted.open(TopicPartition("orders", index), OLD, LeaderEpoch(1), SMALL) for index in range(5)]
        for partition in partitions:
            assert partition is not None
            for _ in range(40):
                placed(partition.append(batch(), clock.wall_ms()))
        await hosted.sync_and_checkpoint(10)
        assert CheckpointFile(disk, RECOVERY_POINTS).read() == {p.name: 40 for p in hosted}
        assert {p.log.recovery_point for p in hosted} == {40}
        flusher.close()

    asyncio.run(main())


def test_a_checkpoint_is_written_even_if_a_sync_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        folder = Folder()
        flusher = Flusher(lambda fault: None, Cell())
        monkeypatch.setattr(flusher, "request", lambda partition: None)
        folder.hosted._flusher = flusher
        partition = folder.hosted.open(NAME, OLD, LeaderEpoch(1), SMALL)
        assert partition is not None
        placed(partition.append(batch(), folder.clock.wall_ms()))
        await folder.hosted.sync_and_checkpoint(0.01)
        assert CheckpointFile(folder.disk, RECOVERY_POINTS).read() == {NAME: 0}
        flusher.close()

    asyncio.run(main())


def test_a_crash_after_many_rolls_replays_nothing_below_the_checkpoint() -> None:
    folder = Folder()
    partition = folder.hosted.open(NAME, OLD, LeaderEpoch(1), SMALL)
    assert partition is not None
    for number in range(400):
        placed(partition.append(batch(producer=1, sequence=number), folder.clock.wall_ms()))
        if number == 100:
            folder.hosted.sync_all()
            folder.flusher.run()
        if number == 200:
            folder.hosted.checkpoint()
    folder.crash()
    again = folder.hosted.open(NAME, OLD, LeaderEpoch(1), SMALL)
    assert again is not None and again.log.end_offset == 400
    assert again.log.recovery.replayed_batches == 0 and again.log.recovery.scanned_batches < 310


def test_an_open_log_takes_its_first_batch_without_descriptors_and_names_its_topic_later() -> None:
    folder = Folder()
    partition = folder.open()
    folder.disk.fail("open", errno.EMFILE)
    folder.append(partition)
    assert partition.before_first_append is not None
    folder.append(partition)
    assert partition.before_first_append is None
    folder.disk.fail("open", errno.EMFILE)
    folder.append(partition)  # nothing is opened any more


def test_an_empty_log_takes_its_first_batch_only_when_its_folder_names_its_topic() -> None:
    folder = Folder()
    partition = folder.open()
    folder.disk.fail("sync", errno.ENOSPC)
    assert refused(partition.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    assert partition.offline is None and partition.log.end_offset == 0
    folder.append(partition)
    other = folder.open(name=TopicPartition("other", 0))
    folder.disk.fail("sync", errno.EIO)
    assert refused(other.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    assert other.offline is not None
