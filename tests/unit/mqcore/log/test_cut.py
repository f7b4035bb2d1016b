"""`mqcore doctor --cut` that crashes at any change on the disk."""

from __future__ import annotations

from typing import Literal

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import RECOVERY_POINTS, CheckpointFile
from mqcore.log.clean_mark import write_clean_mark
from mqcore.log.doctor import cut_partition
from mqcore.log.examination import open_segments
from mqcore.log.topic_config import LogConfig
from mqcore.log.validity import find_first_invalid
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50)
NAME = TopicPartition("orders", 0)


def corrupt_disk(seed: int) -> tuple[MemoryDisk, list[bytes]]:
    """Four durable segments with a flipped bit in the second, and the batches before that bit."""
    disk = MemoryDisk(seed)
    log = open_log(disk, CONFIG)
    batches = [append(log, batch([b"x" * 100], producer=1, sequence=number)) for number in range(8)]
    log.close()
    CheckpointFile(disk, RECOVERY_POINTS).write({NAME: 8})
    write_clean_mark(disk, 1)
    segment = log.segments.items[1]
    file = disk.open(segment.path(".log"))
    content = bytearray(file.read(0, file.size))
    content[-1] ^= 1
    file.truncate(0)
    file.append([content])
    file.sync()
    return disk, batches[: log.segments.bases[2] - 1]


def cut(disk: MemoryDisk) -> None:
    items = open_segments(disk, str(NAME))
    invalid = find_first_invalid(items).first_invalid
    if invalid is not None:
        cut_partition(disk, NAME, items[invalid.segment_index].base_offset, invalid.position, invalid.next_offset)


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_cut_that_crashes_leaves_the_log_corrupt_or_cut_and_can_be_repeated(kind: Literal["kill", "power"]) -> None:
    disk, wanted = corrupt_disk(0)
    before = disk.changes
    cut(disk)
    changes = disk.changes - before
    assert changes > 10
    for nth in range(1, changes + 1):
        disk, wanted = corrupt_disk(nth)
        disk.crash_at(nth, "after")
        with pytest.raises(Crashed):
            cut(disk)
        disk.crash(kind)
        cut(disk)  # changes nothing if no invalid batch is left
        point = CheckpointFile(disk, RECOVERY_POINTS).read().get(NAME, 0)
        assert stored(open_log(disk, CONFIG, recovery_point=point)) == wanted, nth
