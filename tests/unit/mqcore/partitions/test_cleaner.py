"""Compaction while the broker lives: in steps, remembered, and never in a folder that is somebody else's by now."""

from __future__ import annotations

import asyncio
import errno

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.log.checkpoints import CLEANER_OFFSETS, CheckpointFile
from mqcore.partitions import cleaner as module
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.partition import Partition
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.stage import NAME
from tests.unit.mqcore.partitions.test_hosted import NEW, Folder

OFFSETS_TOPIC = {"cleanup.policy": "compact", "segment.bytes": "4096", "file.delete.delay.ms": "0"}


def commit(folder: Folder, partition: Partition, rounds: int, groups: int = 3) -> None:
    """As a coordinator does: one record a commit, the same few keys again and again."""
    for number in range(rounds):
        key, value = b"group-%d" % (number % groups), b"offset %d" % number
        partition.append_records([Record(0, folder.clock.wall_ms(), key, value)])


def latest(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {
        record.key: record.value for record in replay(partition, partition.log.start_offset, partition.log.end_offset)
    }


def cleaner_of(folder: Folder) -> Cleaner:
    return Cleaner(folder.disk, folder.hosted, folder.clock, buffer_bytes=1 << 20)


def test_committing_for_ever_does_not_grow_the_log() -> None:
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    cleaner = cleaner_of(folder)
    sizes = []
    for _ in range(10):
        commit(folder, partition, 300)
        asyncio.run(cleaner.run_once())
        folder.hosted.expire()
        sizes.append(partition.log.size_bytes)
    assert max(sizes[2:]) < 5 * 4096
    assert latest(partition) == {b"group-0": b"offset 297", b"group-1": b"offset 298", b"group-2": b"offset 299"}


def test_without_the_cleaner_it_does() -> None:
    """The negative control."""
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    for _ in range(10):
        commit(folder, partition, 300)
        folder.hosted.expire()
    assert partition.log.size_bytes > 40 * 4096


def test_what_is_not_compacted_or_not_due_is_left_alone() -> None:
    folder = Folder()
    partition = folder.open(settings={"segment.bytes": "4096"})
    commit(folder, partition, 300)
    assert asyncio.run(cleaner_of(folder).run_once()) == 0
    assert partition.log.end_offset == 300 and len(latest(partition)) == 3


def test_a_restart_goes_on_where_the_last_run_ended() -> None:
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    assert asyncio.run(cleaner_of(folder).run_once()) == 1
    kept = CheckpointFile(folder.disk, CLEANER_OFFSETS).read()
    assert kept[NAME] > 0
    folder.crash()
    before = latest(folder.open(settings=OFFSETS_TOPIC))
    assert asyncio.run(cleaner_of(folder).run_once()) == 0  # nothing is dirty enough
    partition = folder.open(settings=OFFSETS_TOPIC)
    assert latest(partition) == before


def test_a_topic_made_again_is_dirty_from_its_start() -> None:
    folder = Folder()
    commit(folder, folder.open(settings=OFFSETS_TOPIC), 300)
    cleaner = cleaner_of(folder)
    asyncio.run(cleaner.run_once())
    folder.hosted.remove(NAME)
    again = folder.open(NEW, OFFSETS_TOPIC)
    commit(folder, again, 600)
    asyncio.run(cleaner.run_once())
    assert again.log.size_bytes < 5 * 4096


def test_a_topic_deleted_and_made_again_during_a_run_is_not_touched_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", -1.0)  # rest after every step
    monkeypatch.setattr(module, "REST_S", 0)
    for steps in range(1, 60, 7):
        folder = Folder()
        commit(folder, folder.open(settings=OFFSETS_TOPIC), 200)

        async def main(folder: Folder = folder, steps: int = steps) -> dict[bytes | None, bytes | None]:
            run = asyncio.create_task(cleaner_of(folder).run_once())
            for _ in range(steps):
                await asyncio.sleep(0)
            folder.hosted.remove(NAME)
            new = folder.open(NEW, OFFSETS_TOPIC)
            new.append_records([Record(0, 1, b"mine", b"alone")])
            await run
            return latest(new)

        assert asyncio.run(main()) == {b"mine": b"alone"}, steps
        files = folder.disk.names(str(NAME))
        assert not [file for file in files if file.endswith((".cleaned", ".swap", ".deleted"))], steps


def test_others_are_served_between_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", -1.0)
    monkeypatch.setattr(module, "REST_S", 0)
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    turns = 0

    async def main() -> None:
        nonlocal turns
        run = asyncio.create_task(cleaner_of(folder).run_once())
        while not run.done():
            turns += 1
            commit(folder, partition, 1, groups=1)
            await asyncio.sleep(0)
        await run

    asyncio.run(main())
    assert turns > 50
    assert latest(partition)[b"group-2"] == b"offset 299"


def test_a_full_disk_postpones_compaction() -> None:
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    before = latest(partition)
    folder.disk.capacity = 0
    assert asyncio.run(_tolerant(cleaner_of(folder))) == 0
    assert partition.offline is None and latest(partition) == before
    folder.disk.capacity = None
    assert asyncio.run(cleaner_of(folder).run_once()) == 1
    assert latest(partition) == before


async def _tolerant(cleaner: Cleaner) -> int:
    """As housekeeping does: even the checkpoint cannot be written."""
    try:
        return await cleaner.run_once()
    except OSError as fault:
        assert fault.errno == errno.ENOSPC
        return 0
