"""Folders of partitions: which topic owns them, and what happens to those of deleted topics and to strays."""

from __future__ import annotations

import errno

import pytest

from mqcore.identity import TopicPartition, kafka_uuid
from mqcore.partitions.folders import STRAY_RETENTION_MS
from tests.unit.mqcore.partitions.folder import NEW, OLD, DataFolder
from tests.unit.mqcore.partitions.helpers import NAME


def test_the_folder_contains_its_topics_id_in_kafkas_format() -> None:
    folder = DataFolder()
    folder.open()
    assert (
        folder.disk.read_whole("orders-0/partition.metadata") == f"version: 0\ntopic_id: {kafka_uuid(OLD)}\n".encode()
    )


def test_a_topic_with_the_longest_possible_name_can_be_deleted() -> None:
    folder = DataFolder()
    name = TopicPartition("n" * 249, 12345)
    folder.open(name=name)
    folder.hosted.remove(name)
    (left,) = [entry for entry in folder.disk.names("") if entry.endswith("-delete/")]
    assert len(left.rstrip("/")) <= 255
    folder.retention.run()
    assert left not in folder.disk.names("")


def test_a_folder_without_a_topic_is_renamed_and_not_deleted() -> None:
    folder = DataFolder()
    folder.append(folder.open())
    long = TopicPartition("n" * 249, 1)
    folder.open(name=long)
    folder.crash()
    folder.hosted.mark_strays()
    folder.retention.run()
    strays = [name for name in folder.disk.names("") if name.endswith("-stray/")]
    assert len(strays) == 2 and all(len(name) <= 256 for name in strays)
    assert folder.open().high_watermark == 0


def test_a_folder_that_cannot_be_renamed_does_not_stop_the_deletion() -> None:
    folder = DataFolder()
    folder.open()
    folder.disk.fail("rename", errno.EIO)
    folder.hosted.remove(NAME)
    assert folder.hosted.get("orders", 0) is None


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"\xff\xfe", b"topic_id: ???\n"])
def test_a_damaged_metadata_file_does_not_cost_the_folders_records(content: bytes) -> None:
    folder = DataFolder()
    folder.append(folder.open(), 4)
    folder.crash()
    folder.disk.replace("orders-0/partition.metadata", content)
    assert folder.open().high_watermark == 4


def test_a_damaged_metadata_file_is_written_again() -> None:
    folder = DataFolder()
    folder.append(folder.open(), 1)
    folder.disk.replace("orders-0/partition.metadata", b"")
    folder.crash()
    folder.open()
    folder.crash()
    folder.append(folder.open(NEW))
    assert folder.hosted.get(*NAME).high_watermark == 1  # type: ignore[union-attr]


def test_a_folder_that_cannot_be_removed_does_not_block_the_others(caplog: pytest.LogCaptureFixture) -> None:
    folder = DataFolder()
    for index in range(3):
        folder.open(name=TopicPartition("orders", index))
        folder.hosted.remove(TopicPartition("orders", index))
    folder.disk.fail("remove", errno.EIO)
    folder.retention.run()
    assert len([name for name in folder.disk.names("") if name.endswith("-delete/")]) == 1
    assert "orders-0" in str(caplog.records[-1].__dict__["folder"])
    folder.retention.run()
    assert not [name for name in folder.disk.names("") if name.endswith("-delete/")]


def test_a_start_continues_when_a_stray_cannot_be_renamed() -> None:
    folder = DataFolder()
    for last in ("a", "b"):  # the longest possible names, different only in the last character
        folder.open(name=TopicPartition("n" * 248 + last, 1))
    folder.open(name=TopicPartition("another", 0))
    folder.crash()
    folder.disk.fail("rename", errno.EIO)
    folder.hosted.mark_strays()
    names = folder.disk.names("")
    assert len([name for name in names if name.endswith("-stray/")]) == 2
    assert "another-0/" in names


def test_strays_are_removed_after_a_week() -> None:
    folder = DataFolder()
    folder.append(folder.open())
    folder.crash()
    folder.hosted.mark_strays()
    folder.clock.advance(STRAY_RETENTION_MS - 1)
    folder.retention.run()
    assert [name for name in folder.disk.names("") if name.endswith("-stray/")]
    folder.clock.advance(1)
    folder.retention.run()
    assert not [name for name in folder.disk.names("") if name.startswith("orders")]
