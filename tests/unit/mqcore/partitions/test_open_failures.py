"""Partitions whose log cannot be opened, or fails while it is served."""

from __future__ import annotations

import errno
from itertools import product

import pytest

from mqcore.identity import LeaderEpoch, TopicPartition
from mqcore.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.wire.errors import Refusal
from tests.unit.mqcore.partitions.folder import OLD, SMALL, DataFolder, corrupt_at_start, unreadable_at_start
from tests.unit.mqcore.partitions.helpers import NAME, batch, error_name, lead_alone


def test_only_the_corrupt_log_is_offline_and_its_checkpoints_stay() -> None:
    folder = DataFolder()
    partition = folder.open(settings=SMALL)
    other = TopicPartition("other", 0)
    folder.append(folder.open(name=other), 2)
    folder.append(partition, 30, 100)
    partition.log.sync()
    folder.durability.write_checkpoints()
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
    assert folder.hosted.open(NAME, OLD, SMALL) is None
    assert NAME in folder.hosted.open_failures
    assert folder.open(name=other).high_watermark == 2
    folder.durability.write_checkpoints()
    assert other in points.read()
    assert folder.durability.close() is False


def test_a_partition_that_comes_online_again_replaces_its_stored_offsets() -> None:
    folder = DataFolder()
    unreadable_at_start(folder)
    assert folder.hosted.retryable_failures() == [(NAME, OLD)]
    folder.durability.write_checkpoints()
    partition = folder.open()
    assert not folder.hosted.open_failures and not folder.hosted.retryable_failures()
    assert (partition.log_start_offset, partition.high_watermark) == (8, 10)
    partition.delete_records(9)
    folder.durability.write_checkpoints()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 9}


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_first_opened_without_descriptors_is_durable_once_it_opens(clean: bool) -> None:
    for kind, skip in product(("open", "append", "make_directory"), range(4)):
        folder = DataFolder()
        folder.begin(clean=clean)
        folder.disk.fail(kind, errno.EMFILE, skip=skip)  # type: ignore[arg-type]
        if folder.hosted.open(NAME, OLD, {}) is None:
            assert folder.hosted.retryable_failures() == [(NAME, OLD)]
        partition = folder.hosted.get(*NAME) or folder.open()
        lead_alone(partition, LeaderEpoch(0))
        for _ in range(2):  # the first append may hit the fault and is then repeated
            outcome = partition.append(batch(), folder.clock.wall_ms())
            if not isinstance(outcome, Refusal):
                break
        partition.log.sync()
        folder.disk.crash("power")
        folder.begin(clean=False)
        assert folder.open().high_watermark == 1, (kind, skip)


def test_a_corrupt_log_is_not_retried() -> None:
    folder = DataFolder()
    corrupt_at_start(folder)
    assert folder.hosted.open_failures and not folder.hosted.retryable_failures()


def test_a_partition_that_goes_offline_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    folder = DataFolder()
    partition = folder.open(settings=SMALL)
    folder.append(partition, 30, 100)
    folder.disk.fail("append", errno.EIO)
    for _ in range(2):
        assert error_name(partition.append(batch(), folder.clock.wall_ms())) == "KAFKA_STORAGE_ERROR"
    lines = [record for record in caplog.records if record.getMessage() == "partition offline"]
    assert [(line.partition, line.levelname) for line in lines] == [("orders-0", "ERROR")]  # type: ignore[attr-defined]
    assert "Input/output error" in lines[0].reason  # type: ignore[attr-defined]
