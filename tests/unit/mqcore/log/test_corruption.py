"""Corruption: what recovery refuses to cut."""

from __future__ import annotations

from random import Random

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.errors import CorruptLog
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import DIRECTORY, append, batch, open_log, place, stored
from tests.unit.mqcore.log.recovering import CONFIG, SEGMENT, batches, disk_with, flipped


def test_a_missing_sector_before_a_valid_batch_is_corruption() -> None:
    parts = batches(4)
    with pytest.raises(CorruptLog, match="a valid batch follows"):
        open_log(disk_with(parts[0], bytes(len(parts[1])), parts[2], parts[3]))


def test_a_bad_batch_before_valid_ones_is_corruption_and_nothing_is_cut() -> None:
    parts = batches(4)
    content = parts[0] + flipped(parts[1], 70) + parts[2] + parts[3]
    disk = disk_with(content)
    for _ in range(2):
        with pytest.raises(CorruptLog) as caught:
            open_log(disk)
        assert (caught.value.directory, caught.value.position) == (DIRECTORY, len(parts[0]))
        assert caught.value.file == "00000000000000000000.log"
        assert "wrong CRC" in caught.value.reason
    assert disk.read_whole(SEGMENT) == content


def test_a_bad_batch_below_the_recovery_point_is_corruption_even_at_the_end() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1], parts[2][:-1])
    with pytest.raises(CorruptLog, match="below the recovery point 6"):
        open_log(disk, recovery_point=6)
    assert stored(open_log(disk, recovery_point=4)) == parts[:2]  # the control: only the batches below it were durable


def test_a_missing_segment_is_corruption() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    for _ in range(30):
        append(log, batch([b"x" * 100]))
    names = [name for name in disk.names(DIRECTORY) if name.endswith(".log")]
    disk.crash("kill")
    disk.remove(f"{DIRECTORY}/{names[2]}")
    with pytest.raises(CorruptLog, match="but the next segment begins at"):
        open_log(disk, CONFIG)


def test_a_missing_durable_tail_is_reported() -> None:
    log = open_log(disk_with(*batches(2)), recovery_point=10)
    assert (log.end_offset, log.recovery.missing_offsets) == (4, 6)


def test_any_flipped_bit_is_detected_or_harmless() -> None:
    """The CRC does not cover base offset and leader epoch. So a higher epoch in the last batch looks like that of a new
    leader; every other flipped bit is detected."""
    parts = batches(3)
    whole = b"".join(parts)
    last = len(parts[0]) + len(parts[1])
    seen = {"cut": 0, "corrupt": 0}
    for position in range(len(whole)):
        disk = disk_with(flipped(whole, position, position % 8))
        try:
            log = open_log(disk)
        except CorruptLog:
            seen["corrupt"] += 1
            assert position < last or last <= position < last + 16
            continue
        if log.recovery.cut_reason is None:
            assert last + 12 <= position < last + 16, f"the flip at {position} went unseen"
            continue
        seen["cut"] += 1
        assert stored(log) == parts[:2]  # only the last batch may look like a torn write
        assert position >= last
    assert seen["cut"] > 80
    assert seen["corrupt"] > 160


def test_flipped_bits_in_a_large_segment_are_detected() -> None:
    random = Random(3)
    parts = batches(200, size=300)
    whole = b"".join(parts)
    for _ in range(60):
        position = random.randrange(len(whole) - len(parts[-1]))
        with pytest.raises(CorruptLog):
            open_log(disk_with(flipped(whole, position, random.randrange(8))))


def test_gaps_are_corruption_except_where_compaction_leaves_them() -> None:
    parts = batches(4)
    with pytest.raises(CorruptLog, match="base offset 4, expected 2"):
        open_log(disk_with(parts[0], parts[2], parts[3]))
    log = open_log(disk_with(parts[0], parts[2], parts[3]), LogConfig(compact=True))
    assert stored(log) == [parts[0], parts[2], parts[3]]


def test_a_decreasing_leader_epoch_is_corruption() -> None:
    first, second, third = (bytearray(part) for part in batches(3))
    place(first, 0, epoch=5)
    place(second, 2, epoch=4)
    place(third, 4, epoch=5)
    with pytest.raises(CorruptLog, match="leader epoch 4 after 5"):
        open_log(disk_with(first, second, third))
