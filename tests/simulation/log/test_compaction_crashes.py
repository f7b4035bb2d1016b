"""Compaction that dies at every single call to the disk, and goes on in the next life."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Literal

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.log.compaction import Compactor
from mqcore.log.config import LogConfig
from mqcore.log.examination import first_bad
from mqcore.log.log import Log
from mqcore.wire.records import Record, read_records
from tests.unit.mqcore.log.bench import append, batch, open_log, stored

CONFIG = LogConfig(compact=True, delete=False, segment_bytes=700, index_interval_bytes=100, min_cleanable_dirty_ratio=0)


def filled(seed: int) -> tuple[MemoryDisk, Log]:
    """Several segments of few keys, all of it durable; the seed is that of the disk's losses."""
    random, disk = Random(1), MemoryDisk(seed)
    log = open_log(disk, CONFIG)
    for number in range(30):
        keys = [b"key-%d" % random.randrange(5) for _ in range(random.randrange(1, 4))]
        values = [None if random.random() < 0.2 else b"%d" % number for _ in keys]
        append(log, batch(values, keys=keys, producer=number % 3, sequence=number * 10))
    log.sync()
    return disk, log


def records(log: Log) -> list[Record]:
    return [record for data in stored(log) for record in read_records(data)]


def newest(found: list[Record]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in found}


def compact(disk: MemoryDisk, log: Log) -> None:
    log.reconfigure(replace(CONFIG, segment_bytes=1800))  # several originals make one cleaned segment
    Compactor(disk, log, first_dirty=0, limit=log.end_offset, now_ms=0).run()


def calls_of_a_whole_run() -> int:
    disk, log = filled(1)
    before = disk.changes
    compact(disk, log)
    return disk.changes - before


CALLS = calls_of_a_whole_run()


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_at_any_call_loses_no_newest_record_and_brings_back_no_deleted_one(
    when: When, kind: Literal["kill", "power"]
) -> None:
    for nth, seed in product(range(1, CALLS + 1), range(5 if kind == "power" else 1)):
        disk, log = filled(seed)
        before, end = records(log), log.end_offset
        disk.crash_at(nth, when)
        with pytest.raises(Crashed):
            compact(disk, log)
        disk.crash(kind)
        again = open_log(disk, CONFIG, recovery_point=end)
        assert again.end_offset == end
        after = records(again)
        assert newest(after) == newest(before), nth
        assert set(after) <= set(before)
        assert again.recovery.cut_bytes == 0
        assert first_bad(disk, "orders-0") is None  # no hole, and no segment that was replaced is left
        compact(disk, again)
        once_more = records(again)
        assert newest(once_more) == newest(before)
        assert len(once_more) < len(before)
        again.close()
        reopened = open_log(disk, CONFIG, clean=True)
        assert records(reopened) == once_more
        assert not [name for name in disk.names("orders-0") if name.endswith((".cleaned", ".swap"))]


def test_a_run_makes_enough_calls_to_be_worth_enumerating() -> None:
    assert CALLS > 30
