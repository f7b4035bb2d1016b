"""A topic that is deleted and created again has nothing of the old one, whatever crashes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Literal
from uuid import UUID

import pytest

from mqcore.coordination.partition_journal import replay
from mqcore.disk.memory import Crashed, When
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, CheckpointFile
from tests.unit.mqcore.partitions.folder import NEW, OLD, DataFolder, corrupt_at_start, unreadable_at_start
from tests.unit.mqcore.partitions.helpers import NAME, batch


def test_a_recreated_topic_begins_at_zero_and_keeps_its_records_after_a_crash() -> None:
    folder = DataFolder()
    old = folder.open()
    folder.append(old, 10)
    old.delete_records(8)
    folder.durability.write_checkpoints()
    folder.hosted.remove(NAME)
    new = folder.open(NEW)
    assert (new.log_start_offset, new.high_watermark) == (0, 0)
    folder.append(new, 3)
    folder.crash()
    again = folder.open(NEW)
    assert (again.log_start_offset, again.high_watermark) == (0, 3)


def test_what_was_committed_of_an_old_topic_says_nothing_about_the_next_of_its_name() -> None:
    folder = DataFolder()
    folder.append(folder.open(), 10)
    folder.hosted.stored_offsets.write(HIGH_WATERMARKS, {NAME: 10})
    folder.hosted.remove(NAME)
    folder.append(folder.open(NEW), 20)
    folder.crash()
    again = folder.hosted.open(NAME, NEW, {})
    assert again is not None and (again.log_end_offset, again.high_watermark) == (20, 0)


def test_a_topic_deleted_during_a_power_loss_leaves_nothing_for_the_next_of_its_name() -> None:
    """The metadata no longer has the topic, but its folder and checkpoints still exist."""
    folder = DataFolder()
    old = folder.open()
    folder.append(old, 10)
    old.delete_records(8)
    folder.durability.write_checkpoints()
    folder.crash()
    new = folder.open(NEW)
    assert (new.log_start_offset, new.high_watermark) == (0, 0)
    folder.append(new, 3)
    folder.crash()
    assert folder.open(NEW).high_watermark == 3


def test_recreating_one_topic_keeps_the_checkpoints_of_partitions_that_are_still_closed() -> None:
    folder = DataFolder()
    other = TopicPartition("other", 0)
    for name in (NAME, other):
        partition = folder.open(OLD, name=name)
        folder.append(partition, 10)
        partition.delete_records(8)
    folder.durability.write_checkpoints()
    folder.crash()
    folder.open(NEW)  # rewrites the checkpoints, while `other` is still closed
    folder.crash()
    folder.open(NEW)
    assert folder.open(OLD, name=other).log_start_offset == 8


@pytest.mark.parametrize("fault", [corrupt_at_start, unreadable_at_start])
def test_a_topic_with_an_offline_partition_can_be_deleted_and_recreated(fault: Callable[[DataFolder], None]) -> None:
    folder = DataFolder()
    fault(folder)
    assert folder.hosted.names_of(OLD) == [NAME]
    folder.hosted.remove(NAME)
    assert not folder.hosted.open_failures and not folder.hosted.names_of(OLD)
    again = folder.open(NEW)
    folder.append(again, 5)
    again.delete_records(2)
    folder.durability.write_checkpoints()
    assert CheckpointFile(folder.disk, LOG_STARTS).read() == {NAME: 2}
    folder.crash()
    again = folder.open(NEW)
    assert (again.log_start_offset, again.high_watermark) == (2, 5)
    folder.hosted.mark_strays()
    folder.retention.run()
    assert [name for name in folder.disk.names("") if name.startswith("orders")] == ["orders-0/"]
    assert folder.durability.close() is True


def life_of_two_topics(folder: DataFolder) -> Iterator[UUID | None]:
    """Yields, before each step, the topic that the metadata has at that time."""
    yield OLD
    old = folder.open()
    for _ in range(5):
        old.append(batch(b"old"), folder.clock.wall_ms())
    old.log.sync()
    old.delete_records(3)
    old.cleaned_to = 4
    folder.durability.write_checkpoints()
    folder.durability.write_cleaner_checkpoint()
    yield None
    folder.hosted.remove(NAME)
    yield NEW
    new = folder.open(NEW)
    for _ in range(2):
        new.append(batch(b"new"), folder.clock.wall_ms())
    new.log.sync()
    yield NEW


def calls_of_both_lives() -> int:
    folder = DataFolder()
    list(life_of_two_topics(folder))
    return folder.disk.changes


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_after_a_crash_at_any_call_a_recreated_topic_has_nothing_of_the_old_one(
    kind: Literal["kill", "power"], when: When
) -> None:
    calls, met = calls_of_both_lives(), 0
    assert calls > 30
    for nth, seed in product(range(1, calls + 1), range(6 if kind == "power" else 1)):
        folder, topic = DataFolder(seed), None
        folder.disk.crash_at(nth, when)
        with pytest.raises(Crashed):
            for topic in life_of_two_topics(folder):  # noqa: B007
                pass
            folder.open(name=TopicPartition("one-more", 0))  # at the latest, the crash happens here
        folder.disk.crash(kind)
        folder.begin(clean=False)
        if topic is OLD:
            continue
        if topic is None and seed % 2:  # the next start may find no topic, or already the new one
            folder.hosted.mark_strays()
        again = folder.open(NEW)
        met += 1
        values = [record.value for record in replay(again, again.log_start_offset, again.high_watermark)]
        assert set(values) <= {b"new"}, (nth, seed)
        assert (again.log_start_offset, again.cleaned_to) == (0, 0), (nth, seed)
    assert met > 10
