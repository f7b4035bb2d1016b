"""Compaction in a running broker: in steps, remembered over restarts, and never in the folder of another topic."""

from __future__ import annotations

import asyncio

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.identity import Offset
from mqcore.log.checkpoints import CLEANER_OFFSETS, CheckpointFile
from mqcore.partitions import cleaner as module
from mqcore.partitions.follower import StartAt
from mqcore.partitions.partition import Partition
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.cleaning import OFFSETS_TOPIC, cleaner_of, commit, latest, one_turn
from tests.unit.mqcore.partitions.folder import NEW, DataFolder
from tests.unit.mqcore.partitions.helpers import NAME, batch, offsets_of


def test_endless_commits_do_not_grow_the_log() -> None:
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    cleaner = cleaner_of(folder)
    sizes = []
    for _ in range(10):
        commit(folder, partition, 300)
        asyncio.run(cleaner.run_once())
        folder.retention.run()
        sizes.append(partition.log.size_bytes)
    assert max(sizes[2:]) < 5 * 4096
    assert latest(partition) == {b"group-0": b"offset 297", b"group-1": b"offset 298", b"group-2": b"offset 299"}


def test_without_the_cleaner_endless_commits_grow_the_log() -> None:
    """The negative control of the test above."""
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    for _ in range(10):
        commit(folder, partition, 300)
        folder.retention.run()
    assert partition.log.size_bytes > 40 * 4096


def test_compaction_skips_other_topics_and_logs_that_are_not_due() -> None:
    folder = DataFolder()
    partition = folder.open(settings={"segment.bytes": "4096"})
    commit(folder, partition, 300)
    assert asyncio.run(cleaner_of(folder).run_once()) == 0
    assert partition.log.end_offset == 300 and len(latest(partition)) == 3


def test_after_a_restart_compaction_continues_where_it_ended() -> None:
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    assert asyncio.run(cleaner_of(folder).run_once()) == 1
    kept = CheckpointFile(folder.disk, CLEANER_OFFSETS).read()
    assert kept[NAME] > 0
    folder.crash()
    before = latest(folder.open(settings=OFFSETS_TOPIC))
    assert asyncio.run(cleaner_of(folder).run_once()) == 0  # no log is dirty enough
    partition = folder.open(settings=OFFSETS_TOPIC)
    assert latest(partition) == before


def test_a_recreated_topic_is_dirty_from_its_start() -> None:
    folder = DataFolder()
    commit(folder, folder.open(settings=OFFSETS_TOPIC), 300)
    cleaner = cleaner_of(folder)
    asyncio.run(cleaner.run_once())
    folder.hosted.remove(NAME)
    again = folder.open(NEW, OFFSETS_TOPIC)
    commit(folder, again, 600)
    asyncio.run(cleaner.run_once())
    assert again.log.size_bytes < 5 * 4096


def test_a_run_does_not_touch_a_topic_that_is_recreated_during_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS_MAX", -1.0)  # pause after every step
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    for steps in range(1, 60, 7):
        folder = DataFolder()
        commit(folder, folder.open(settings=OFFSETS_TOPIC), 200)

        async def main(folder: DataFolder = folder, steps: int = steps) -> dict[bytes | None, bytes | None]:
            run = asyncio.create_task(cleaner_of(folder).run_once())
            for _ in range(steps):
                await one_turn(folder)
            folder.hosted.remove(NAME)
            new = folder.open(NEW, OFFSETS_TOPIC)
            new.append_records([Record(0, 1, b"mine", b"alone")])
            while not run.done():
                await one_turn(folder)
            await run
            return latest(new)

        assert asyncio.run(main()) == {b"mine": b"alone"}, steps
        files = folder.disk.names(str(NAME))
        assert not [file for file in files if file.endswith((".cleaned", ".swap", ".deleted"))], steps


def test_a_cut_during_a_run_leaves_nothing_of_the_old_records(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS_MAX", -1.0)  # pause after every step
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    for steps in range(1, 60, 7):
        folder = DataFolder()
        partition = folder.open(settings=OFFSETS_TOPIC)
        commit(folder, partition, 200)

        async def main(folder: DataFolder = folder, partition: Partition = partition, steps: int = steps) -> None:
            run = asyncio.create_task(cleaner_of(folder).run_once())
            for _ in range(steps):
                await one_turn(folder)
            partition.carry_out(StartAt(Offset(0)), folder.clock.wall_ms())
            partition.append_records([Record(0, 1, b"mine", b"alone")])
            while not run.done():
                await one_turn(folder)
            await run

        asyncio.run(main())
        assert latest(partition) == {b"mine": b"alone"} and not partition.is_offline, steps
        assert partition.cleaned_to == 0
    assert caplog.text == ""


def test_clients_are_served_between_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS_MAX", -1.0)  # pause after every step
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)
    commit(folder, partition, 300)
    turns = 0

    async def main() -> None:
        nonlocal turns
        run = asyncio.create_task(cleaner_of(folder).run_once())
        while not run.done():
            turns += 1
            commit(folder, partition, 1, groups=1)
            await one_turn(folder)
        await run

    asyncio.run(main())
    assert turns > 50
    assert latest(partition)[b"group-2"] == b"offset 299"


def deleted_key(folder: DataFolder, partition: Partition) -> None:
    """A value in an old segment, and its tombstone in a much later one."""
    now = folder.clock.wall_ms()
    partition.append_records([Record(0, now, b"gone", b"secret")])
    commit(folder, partition, 150)
    partition.append_records([Record(0, now, b"gone", None)])
    commit(folder, partition, 150)


@pytest.mark.parametrize("restart", ["before the deletion", "after the deletion", "none"])
def test_a_recreated_topic_is_compacted_from_its_start_whenever_the_broker_restarts(restart: str) -> None:
    settings = {**OFFSETS_TOPIC, "delete.retention.ms": "0"}
    folder = DataFolder()
    commit(folder, folder.open(settings=settings), 300)
    assert asyncio.run(cleaner_of(folder).run_once()) == 1
    if restart == "before the deletion":
        folder.crash()
        folder.open(settings=settings)
    folder.hosted.remove(NAME)
    if restart == "after the deletion":
        folder.crash()
    again = folder.open(NEW, settings)
    deleted_key(folder, again)
    folder.crash()
    again = folder.open(NEW, settings)
    for _ in range(4):
        cleaner = cleaner_of(folder)
        asyncio.run(cleaner.run_once())
        commit(folder, again, 300)
        folder.clock.advance(10)
    found = list(replay(again, again.log.start_offset, again.log.end_offset))
    assert b"gone" not in [record.key for record in found]
    assert len(found) < 600


def test_expired_producers_leave_nothing_in_a_compacted_log() -> None:
    folder = DataFolder()
    partition = folder.open(settings=OFFSETS_TOPIC)

    def write(producer: int) -> None:
        now = folder.clock.wall_ms()
        offsets_of(partition.append(batch(b"v", producer=producer, timestamp=now), now))

    for producer in range(50):
        write(producer)
    commit(folder, partition, 300)
    asyncio.run(cleaner_of(folder).run_once())
    for _ in range(2):
        folder.retention.run()
        folder.clock.advance(120_000)  # the producers expire after a minute
    write(100)
    commit(folder, partition, 300)
    folder.crash()  # which remembers every producer in the log for another minute
    partition = folder.open(settings=OFFSETS_TOPIC)
    asyncio.run(cleaner_of(folder).run_once())
    folder.crash()
    for name in folder.disk.names(str(NAME)):
        if name.endswith(".snapshot"):
            folder.disk.remove(f"{NAME}/{name}")
    partition = folder.open(settings=OFFSETS_TOPIC)
    remembered = {producer for producer, _ in partition.producers.by_id()}
    assert 100 in remembered and len(remembered) < 5
