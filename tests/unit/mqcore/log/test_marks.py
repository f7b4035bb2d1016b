"""Checkpoints and the mark of a clean stop."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import RECOVERY_POINTS, CheckpointFile, decode_offsets, encode_offsets
from mqcore.log.clean_mark import CLEAN_MARK, take_clean_mark, write_clean_mark

ORDERS = {TopicPartition("orders", 0): 1742, TopicPartition("orders", 10): 0, TopicPartition("a.b_c", 3): 2**60}
TOPICS = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=9)


def test_a_checkpoint_file_has_kafkas_format() -> None:
    assert encode_offsets(ORDERS) == b"0\n3\na.b_c 3 1152921504606846976\norders 0 1742\norders 10 0\n"
    assert encode_offsets({}) == b"0\n0\n"


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 999)), st.integers(0, 2**63 - 1), max_size=9))
def test_checkpointed_offsets_are_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n1\na 0 -1\n", b"0\n1\na b c d\n",
     b"\0" * 30, b"\xff"],
)  # fmt: skip
def test_a_damaged_checkpoint_counts_as_absent(content: bytes) -> None:
    disk = MemoryDisk()
    disk.replace(RECOVERY_POINTS, content)
    assert decode_offsets(content) is None
    assert CheckpointFile(disk, RECOVERY_POINTS).read() == {}


def test_a_checkpoint_is_written_only_when_it_changed_and_survives_a_power_loss() -> None:
    disk = MemoryDisk()
    file = CheckpointFile(disk, RECOVERY_POINTS)
    assert file.read() == {}
    file.write(ORDERS)
    before = disk.changes
    file.write(dict(ORDERS))
    assert disk.changes == before
    disk.crash("power")
    assert CheckpointFile(disk, RECOVERY_POINTS).read() == ORDERS


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_at_any_call_leaves_the_old_checkpoint_or_the_new(kind: Literal["kill", "power"]) -> None:
    new = {TopicPartition("orders", 0): 2000}
    found = []
    for nth in range(1, 7):
        for seed in range(5):
            disk = MemoryDisk(seed)
            CheckpointFile(disk, RECOVERY_POINTS).write(ORDERS)
            disk.crash_at(nth, "after")
            with pytest.raises(Crashed):
                CheckpointFile(disk, RECOVERY_POINTS).write(new)
            disk.crash(kind)
            found.append(CheckpointFile(disk, RECOVERY_POINTS).read())
    assert all(offsets in (ORDERS, new) for offsets in found)
    assert ORDERS in found
    assert new in found


def test_the_clean_mark_is_removed_when_it_is_taken() -> None:
    disk = MemoryDisk()
    assert take_clean_mark(disk) is None
    write_clean_mark(disk, 17)
    disk.crash("power")
    assert take_clean_mark(disk) == 17
    assert take_clean_mark(disk) is None
    for seed in range(20):
        disk = MemoryDisk(seed)
        write_clean_mark(disk, 17)
        take_clean_mark(disk)
        disk.crash("power")
        assert not disk.exists(CLEAN_MARK)


def test_a_crash_while_the_clean_mark_is_taken_leaves_it_or_removes_it() -> None:
    """The control for the test above: without a sync of the folder the mark could reappear."""
    found = set()
    for seed in range(40):
        disk = MemoryDisk(seed)
        write_clean_mark(disk, 17)
        disk.remove(CLEAN_MARK)
        disk.crash("power")
        found.add(disk.exists(CLEAN_MARK))
    assert found == {True, False}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":1,"brokerEpoch":5}', b'{"version":0}', b"\0\0"])
def test_a_damaged_clean_mark_is_ignored_and_removed(content: bytes) -> None:
    disk = MemoryDisk()
    disk.replace(CLEAN_MARK, content)
    assert take_clean_mark(disk) is None
    assert not disk.exists(CLEAN_MARK)
