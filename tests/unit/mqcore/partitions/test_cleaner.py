"""Compaction while the broker lives: in steps, remembered, and never in a folder that is somebody else's by now."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, CheckpointFile
from mqcore.log.compaction import Cleanable, cleanable
from mqcore.log.log import Log
from mqcore.partitions import cleaner as module
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.partition import Partition
from mqcore.wire.records import Record
from tests.unit.mqcore.log.bench import place, poisoned
from tests.unit.mqcore.partitions.stage import NAME, batch, placed
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


# ── one fault, one partition ────────────────────────────────────────────────────────────────────

OTHERS = {"cleanup.policy": "compact", "segment.bytes": "4096", "message.timestamp.after.max.ms": str(2**63 - 1)}


def rot(folder: Folder, partition: Partition) -> None:
    """The first header of a sealed segment becomes unreadable."""
    base = partition.log.segments.items[0].base_offset
    partition.log.segments.items[0].release()
    file = folder.disk.open(f"{partition.name}/{base:020}.log")
    content = bytearray(file.read(0, file.size))
    content[16] = 9
    file.truncate(0)
    file.append([content])


def poison(folder: Folder, partition: Partition) -> None:
    """A batch from before such timestamps were refused, its sum of base and delta above 64 bits."""
    found = [Record(0, 2**63 + 5, b"group-0", b"1"), Record(1, 2**63 + 5, b"group-9", b"1")]
    data = poisoned(found, 2**63 - 1)
    header = place(data, partition.log.end_offset)
    partition.log.append(data, [header], folder.clock.wall_ms())
    partition._advance()
    commit(folder, partition, 200)


def fail_to_read(folder: Folder, partition: Partition) -> None:
    partition.log.segments.items[0].release()
    folder.disk.fail("open", errno.EIO)  # of the first log that is looked at


@pytest.mark.parametrize(
    ("fault", "policy"),
    [(rot, "compact"), (rot, "delete"), (poison, "compact"), (poison, "delete"), (fail_to_read, "compact")],
)
def test_a_log_that_cannot_be_compacted_does_not_keep_the_others_from_it(
    fault: Callable[[Folder, Partition], None], policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder()
    names = [TopicPartition("orders", index) for index in range(3)]
    settings = {name: {**OTHERS, "cleanup.policy": "compact" if name.partition else policy} for name in names}
    for name in names:
        commit(folder, folder.open(name=name, settings=settings[name]), 300)
    assert folder.hosted.close()
    folder.begin(clean=True)  # nothing is in memory
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
        assert not errors and first.offline is None
    else:
        assert [record.partition for record in errors] == ["orders-0"]  # type: ignore[attr-defined]
        assert (first.offline is not None) is (fault is rot)
    if fault is poison and policy == "compact":
        assert sizes[0] < 3 * 4096 and latest(first)[b"group-9"] == b"1"


def test_an_error_in_the_code_stays_with_its_partition(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder()
    for index in range(3):
        commit(folder, folder.open(name=TopicPartition("orders", index), settings=OTHERS), 300)
    whole = cleanable

    def failing(log: Log, *arguments: int) -> Cleanable:
        if log.directory == "orders-1":
            raise KeyError("a bug")
        return whole(log, *arguments)

    monkeypatch.setattr(module, "cleanable", failing)
    assert asyncio.run(cleaner_of(folder).run_once()) == 2
    [error] = [record for record in caplog.records if record.exc_info]
    assert error.partition == "orders-1"  # type: ignore[attr-defined]


# ── what a name remembers ───────────────────────────────────────────────────────────────────────


def deleted_key(folder: Folder, partition: Partition) -> None:
    """A value in an old segment, and its tombstone far behind it."""
    now = folder.clock.wall_ms()
    partition.append_records([Record(0, now, b"gone", b"secret")])
    commit(folder, partition, 150)
    partition.append_records([Record(0, now, b"gone", None)])
    commit(folder, partition, 150)


@pytest.mark.parametrize("restart", ["before the deletion", "after the deletion", "none"])
def test_a_topic_made_again_is_compacted_from_its_start_whenever_the_broker_restarts(restart: str) -> None:
    settings = {**OFFSETS_TOPIC, "delete.retention.ms": "0"}
    folder = Folder()
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


def test_producers_that_have_expired_leave_nothing_in_a_compacted_log() -> None:
    folder = Folder()
    partition = folder.open(settings=OFFSETS_TOPIC)

    def write(producer: int) -> None:
        now = folder.clock.wall_ms()
        placed(partition.append(batch(b"v", producer=producer, timestamp=now), now))

    for producer in range(50):
        write(producer)
    commit(folder, partition, 300)
    asyncio.run(cleaner_of(folder).run_once())
    for _ in range(2):
        folder.hosted.expire()
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
    remembered = {producer for producer, _ in partition.producers.remembered()}
    assert 100 in remembered and len(remembered) < 5
