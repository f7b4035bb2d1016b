"""Faults during compaction affect only the partition that has them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from mqcore.identity import TopicPartition
from mqcore.log.compaction import CleanableRange, find_cleanable
from mqcore.log.log import Log
from mqcore.partitions import cleaner as module
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.partition import Partition
from mqcore.wire.records import Record
from tests.unit.mqcore.log.helpers import place, poisoned
from tests.unit.mqcore.partitions.cleaning import OFFSETS_TOPIC, cleaner_of, commit, latest
from tests.unit.mqcore.partitions.folder import DataFolder


def test_a_full_disk_postpones_compaction() -> None:
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    before = latest(partition)
    folder.disk.capacity = 0
    assert asyncio.run(_tolerant(cleaner_of(folder))) == 0
    assert not partition.is_offline and latest(partition) == before
    folder.disk.capacity = None
    assert asyncio.run(cleaner_of(folder).run_once()) == 1
    assert latest(partition) == before


OTHERS = {"cleanup.policy": "compact", "segment.bytes": "4096", "message.timestamp.after.max.ms": str(2**63 - 1)}


def rot(folder: DataFolder, partition: Partition) -> None:
    """The first header of a sealed segment becomes unreadable."""
    base = partition.log.segments.items[0].base_offset
    partition.log.segments.items[0].release()
    file = folder.disk.open(f"{partition.name}/{base:020}.log")
    content = bytearray(file.read(0, file.size))
    content[16] = 9
    file.truncate(0)
    file.append([content])


def poison(folder: DataFolder, partition: Partition) -> None:
    """A batch that was accepted before such timestamps were refused: base plus delta exceeds 64 bits."""
    found = [Record(0, 2**63 + 5, b"group-0", b"1"), Record(1, 2**63 + 5, b"group-9", b"1")]
    data = poisoned(found, 2**63 - 1)
    header = place(data, partition.log.end_offset)
    partition.log.append(data, [header], folder.clock.wall_ms())
    partition._advance()
    commit(folder, partition, 200)


def fail_to_read(folder: DataFolder, partition: Partition) -> None:
    partition.log.segments.items[0].release()
    folder.disk.fail("open", errno.EIO)  # of the first log to be compacted


@pytest.mark.parametrize(
    ("fault", "policy"),
    [(rot, "compact"), (rot, "delete"), (poison, "compact"), (poison, "delete"), (fail_to_read, "compact")],
)
def test_a_log_that_cannot_be_compacted_does_not_block_the_others(
    fault: Callable[[DataFolder, Partition], None], policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = DataFolder()
    names = [TopicPartition("orders", index) for index in range(3)]
    settings = {name: {**OTHERS, "cleanup.policy": "compact" if name.partition else policy} for name in names}
    for name in names:
        commit(folder, folder.open(name=name, settings=settings[name]), 300)
    assert folder.durability.close()
    folder.begin(clean=True)  # no segment is in memory
    for name in names:
        folder.open(name=name, settings=settings[name])
    first = folder.hosted.get(*names[0])
    assert first is not None
    fault(folder, first)
    caplog.clear()
    asyncio.run(cleaner_of(folder).run_once())
    sizes = [partition.log.size_bytes for partition in folder.hosted]
    assert sizes[1] < 3 * 4096 and sizes[2] < 3 * 4096
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    if policy == "delete" or fault is poison:
        assert not errors and not first.is_offline
    else:
        assert [record.partition for record in errors] == ["orders-0"]  # type: ignore[attr-defined]
        assert (first.is_offline) is (fault is rot)
    if fault is poison and policy == "compact":
        assert sizes[0] < 3 * 4096 and latest(first)[b"group-9"] == b"1"


def test_an_unexpected_exception_affects_only_its_partition(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder()
    for index in range(3):
        commit(folder, folder.open(name=TopicPartition("orders", index), settings=OTHERS), 300)
    whole = find_cleanable

    def failing(log: Log, *arguments: int) -> CleanableRange:
        if log.directory == "orders-1":
            raise KeyError("a bug")
        return whole(log, *arguments)

    monkeypatch.setattr(module, "find_cleanable", failing)
    assert asyncio.run(cleaner_of(folder).run_once()) == 2
    [error] = [record for record in caplog.records if record.exc_info]
    assert error.partition == "orders-1"  # type: ignore[attr-defined]


async def _tolerant(cleaner: Cleaner) -> int:
    """Tolerate, as housekeeping does, that even the checkpoint cannot be written."""
    try:
        return await cleaner.run_once()
    except OSError as fault:
        assert fault.errno == errno.ENOSPC
        return 0
