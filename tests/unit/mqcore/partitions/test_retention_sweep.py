"""The retention sweep removes what has expired, and a fault of one partition does not stop it."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from mqcore.identity import TopicPartition
from mqcore.log.errors import CorruptLog
from tests.unit.mqcore.partitions.folder import SMALL, DataFolder
from tests.unit.mqcore.partitions.helpers import batch, offsets_of


def test_old_segments_and_idle_producers_expire() -> None:
    folder = DataFolder()
    partition = folder.open(settings={**SMALL, "retention.ms": "1000", "file.delete.delay.ms": "0"})
    folder.append(partition, 30, 100)
    offsets_of(partition.append(batch(producer=5, timestamp=folder.clock.wall_ms()), folder.clock.wall_ms()))
    folder.retention.run()
    assert partition.log_start_offset == 0 and len(partition.producers) == 1
    folder.clock.advance(120_000)
    folder.retention.run()
    assert partition.log_start_offset == 31 and len(partition.producers) == 0


def test_a_fault_of_one_partition_does_not_block_retention_of_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (OSError(errno.EIO, "bad sector"), CorruptLog("orders-1", "0.log", 0, "rotten"), KeyError("a bug")):
        folder = DataFolder()
        names = [TopicPartition("orders", index) for index in range(3)]
        for name in names:
            partition = folder.open(name=name, settings={**SMALL, "retention.ms": "1000"})
            folder.append(partition, 30, 100)
        folder.clock.advance(120_000)
        monkeypatch.setattr(folder.hosted.get(*names[1]).log, "apply_retention", raising(fault))  # type: ignore[union-attr]
        caplog.clear()
        folder.retention.run()
        starts = [partition.log_start_offset for partition in folder.hosted]
        assert starts == [30, 0, 30]
        assert [record.partition for record in caplog.records if record.levelname == "ERROR"] == ["orders-1"]  # type: ignore[attr-defined]


def raising(fault: Exception) -> Callable[..., None]:
    def act(*_: object, **__: object) -> None:
        raise fault

    return act
