"""The registry of open partitions: opening, finding and removing them."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqcore.identity import TopicPartition
from mqcore.partitions.partition import Partition
from tests.unit.mqcore.partitions.folder import OLD, DataFolder
from tests.unit.mqcore.partitions.helpers import NAME, batch, error_name, offsets_of


def test_a_partition_is_found_by_name_and_by_id_until_it_is_removed() -> None:
    folder = DataFolder()
    partition = folder.open()
    assert folder.hosted.get("orders", 0) is partition is folder.hosted.by_id(OLD, 0)
    assert list(folder.hosted) == [partition] and len(folder.hosted) == 1
    folder.hosted.remove(NAME)
    assert folder.hosted.get("orders", 0) is None and folder.hosted.by_id(OLD, 0) is None
    assert partition.is_offline
    assert f"{NAME}/" not in folder.disk.names("")
    folder.retention.run()
    assert not [name for name in folder.disk.names("") if "orders" in name]


def test_a_removed_partition_frees_its_producers() -> None:
    folder = DataFolder()
    partition = folder.open()
    offsets_of(partition.append(batch(producer=7, timestamp=folder.clock.wall_ms()), folder.clock.wall_ms()))
    assert folder.hosted.producer_budget.count == 1
    folder.hosted.remove(NAME)
    assert folder.hosted.producer_budget.count == 0


def test_records_survive_a_crash_with_their_offsets() -> None:
    folder = DataFolder()
    folder.append(folder.open(), 5)
    folder.crash()
    assert folder.open().high_watermark == 5


def test_deleting_a_topic_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    folder = DataFolder()
    folder.open()
    folder.hosted.remove(NAME)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_open_log_accepts_its_first_batch_without_descriptors_and_writes_its_topic_id_later() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.disk.fail("open", errno.EMFILE)
    folder.append(partition)
    assert partition.appender.before_first_append is not None
    folder.append(partition)
    assert partition.appender.before_first_append is None
    folder.disk.fail("open", errno.EMFILE)
    folder.append(partition)  # opens no file any more


def test_an_empty_log_accepts_its_first_batch_only_after_its_topic_id_is_durable() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.disk.fail("sync", errno.ENOSPC)
    assert error_name(partition.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    assert not partition.is_offline and partition.log.end_offset == 0
    folder.append(partition)
    other = folder.open(name=TopicPartition("other", 0))
    folder.disk.fail("sync", errno.EIO)
    assert error_name(other.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    assert other.is_offline


def opened_on_a_thread(folder: DataFolder, remove: bool = False) -> list[Partition | None]:
    """What the callback got. With `remove`, the topic is deleted while its log is being opened."""
    opened: list[Partition | None] = []

    async def main() -> None:
        with ThreadPoolExecutor(1) as threads:
            folder.hosted.open_on(threads, NAME, OLD, {}, opened.append)
            assert folder.hosted.names_of(OLD) == [NAME] and folder.hosted.get(*NAME) is None
            if remove:
                folder.hosted.remove(NAME)
            while not opened and folder.hosted.names_of(OLD):
                await asyncio.sleep(0)

    asyncio.run(main())
    return opened


def test_a_log_that_is_opened_on_a_thread_is_installed_on_the_loop() -> None:
    folder = DataFolder()
    folder.append(folder.open(), 3)
    folder.crash()
    (partition,) = opened_on_a_thread(folder)
    assert partition is not None and partition is folder.hosted.by_id(OLD, 0)
    assert partition.log_end_offset == 3


def test_a_fault_on_the_thread_is_noted_like_any_other() -> None:
    folder = DataFolder()
    folder.append(folder.open())
    folder.crash()
    folder.disk.fail("open", errno.EMFILE, times=100)
    assert opened_on_a_thread(folder) == [None]
    assert folder.hosted.retryable_failures() == [(NAME, OLD)]


def test_a_topic_that_is_deleted_while_its_log_is_being_opened_leaves_no_folder_of_its_name() -> None:
    folder = DataFolder()
    folder.append(folder.open())
    folder.crash()
    assert opened_on_a_thread(folder, remove=True) == []
    assert not folder.disk.exists(str(NAME)) and folder.hosted.get(*NAME) is None


def test_idle_producers_that_a_thread_restores_count_in_the_budget_of_the_broker() -> None:
    folder = DataFolder()
    partition = folder.open()
    offsets_of(partition.append(batch(producer=1), folder.clock.wall_ms()))
    folder.crash()
    opened_on_a_thread(folder)
    assert folder.hosted.producer_budget.count == 1
