"""Runs of compaction: their limits and steps, a log that changes during them, and when one is due."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.compaction import Compactor, find_cleanable
from mqcore.log.errors import LogFailed
from mqcore.log.log import Log
from mqcore.log.segment_files import LOG_SUFFIX
from tests.unit.mqcore.log.compacting import CONFIG, compact, left, log_of, records
from tests.unit.mqcore.log.helpers import append, batch, open_log


def test_a_run_stops_at_its_limit_of_keys_and_the_next_run_continues() -> None:
    log = log_of(*[(str(number % 10), str(number)) for number in range(40)])
    first = compact(log, keys_max=7)
    assert 0 < first < 40
    position, runs = first, 1
    while position < log.end_offset:
        following = compact(log, first_dirty=position, keys_max=7)
        assert following > position
        position, runs = following, runs + 1
    assert runs > 3
    assert [offset for offset, _, _ in left(log)] == list(range(30, 40))


def _compact_with_a_sync_after_each_removal(log: Log, disk: MemoryDisk) -> list[str]:
    """Merge all sealed segments into one. A sync, which another thread may run at any time, follows each removal."""
    log.sync()
    log.config = replace(CONFIG, segment_bytes=5000)  # the originals fit into one segment, so their logs are removed
    remove, removed = disk.remove, []

    def remove_then_sync(path: str) -> None:
        remove(path)
        log.segments.release_sealed(log.end_offset)  # so that the sync has to open the files
        log.segments.sync(0, log.end_offset)
        removed.append(path)

    disk.remove = remove_then_sync  # type: ignore[method-assign]
    assert compact(log) > 0
    return removed


def test_a_sync_on_another_thread_does_not_look_for_an_original_that_is_being_removed() -> None:
    disk = MemoryDisk()
    log = log_of(*[(str(number % 3), "value") for number in range(20)], disk=disk)
    originals = [segment.path(LOG_SUFFIX) for segment in log.segments.items[1:-1]]
    removed = _compact_with_a_sync_after_each_removal(log, disk)
    assert len(originals) > 1 and set(originals) <= set(removed)


def test_a_sync_fails_if_memory_still_names_the_original_that_is_being_removed() -> None:
    disk = MemoryDisk()
    log = log_of(*[(str(number % 3), "value") for number in range(20)], disk=disk)
    log.replace_segments = lambda group, cleaned: None  # type: ignore[method-assign]  # the guard, switched off
    with pytest.raises(LogFailed, match="No such file"):
        _compact_with_a_sync_after_each_removal(log, disk)


def test_a_run_consists_of_many_short_steps() -> None:
    log = open_log(MemoryDisk(), replace(CONFIG, segment_bytes=1 << 20))
    for _ in range(10):
        append(log, batch([b"v"] * 2500, keys=[b"%d" % number for number in range(2500)]))
    log.roll(0)
    steps = list(Compactor(log._disk, log, first_dirty=0, limit=log.end_offset, now_ms=0).steps())
    assert len(steps) >= 2 * 10 * 3
    assert sum(step is not None for step in steps) == 3  # a file and its indexes to sync
    assert len(records(log)) == 2500


@pytest.mark.parametrize("change", ["truncate", "truncate fully", "delete", "append"])
def test_the_log_stays_correct_when_it_changes_between_two_steps(change: str) -> None:
    changed = 0
    for pause in range(0, 80, 3):
        disk = MemoryDisk()
        log = log_of(*[(str(number % 3), "x" * 100) for number in range(20)], disk=disk)
        steps = Compactor(disk, log, first_dirty=0, limit=20, now_ms=0).steps()
        for _, file in zip(range(pause), steps, strict=False):
            if file is not None:
                file.sync()
        end, start = 20, 0
        if change == "truncate":
            log.truncate_to(7)
            end = log.end_offset
        elif change == "truncate fully":
            log.truncate_fully(50)
            end = start = 50
        elif change == "delete":
            log.reconfigure(replace(CONFIG, delete=True, retention_bytes=log.size_bytes // 2, file_delete_delay_ms=0))
            log.apply_retention(0, limit=20)
            log.apply_retention(1, limit=20)
            start = log.start_offset
        else:
            append(log, batch([b"new"], keys=[b"0"]))
            log.roll(0)
            end = 21
        for file in steps:
            changed += 1
            if file is not None:
                file.sync()
        assert (log.start_offset, log.end_offset) == (start, end)
        wanted = left(log)
        disk.crash("kill")
        again = open_log(disk, CONFIG, start_offset=start)
        assert again.end_offset == end
        assert left(again) == wanted
        if change == "append":
            assert {key: offset for offset, key, _ in wanted} == {"0": 20, "1": 19, "2": 17}
    assert changed > 20


@pytest.mark.parametrize("seed", range(10))
def test_any_history_is_compacted_to_what_a_dictionary_would_contain(seed: int) -> None:
    random, disk = Random(seed), MemoryDisk(seed)
    log, cleaned = open_log(disk, CONFIG), 0
    model: dict[bytes | None, tuple[int, bytes | None]] = {}
    for number in range(120):
        count = random.randrange(1, 5)
        keys = [b"%d" % random.randrange(12) for _ in range(count)]
        values = [None if random.random() < 0.15 else b"%d" % number for _ in keys]
        base = log.end_offset
        append(log, batch(values, keys=keys, codec=random.randrange(5), producer=number % 2, sequence=number))
        model |= {key: (base + at, value) for at, (key, value) in enumerate(zip(keys, values, strict=True))}
        if random.random() < 0.1:
            cleaned = compact(log, first_dirty=cleaned, now_ms=0, keys_max=random.choice((3, 1000)))
            assert {record.key: (record.offset, record.value) for record in records(log)} == model
        if random.random() < 0.05:
            disk.crash("kill")
            log = open_log(disk, CONFIG)
        if random.random() < 0.05:
            log.close()
            log = open_log(disk, CONFIG, clean=True)
    log.roll(0)
    compact(log, first_dirty=cleaned)
    assert len(records(log)) == len(model)
    assert {record.key: (record.offset, record.value) for record in records(log)} == model


def due(log: Log, first_dirty: int = 0, now_ms: int = 10**6, **settings: object) -> bool:
    log.reconfigure(replace(CONFIG, **settings))  # type: ignore[arg-type]
    return find_cleanable(log, first_dirty, log.end_offset, now_ms).is_due


def test_compaction_is_due_by_the_share_of_dirty_bytes() -> None:
    log = log_of(*[("a", "x" * 200)] * 10)
    half = log.segments.bases[len(log.segments.bases) // 2]
    assert due(log, half, min_cleanable_dirty_ratio=0.4)
    assert not due(log, half, min_cleanable_dirty_ratio=0.8)
    assert not due(log, log.segments.bases[-1])
    assert not due(log, compact=False)


def test_compaction_is_due_when_the_oldest_dirty_batch_exceeds_the_maximum_lag() -> None:
    log = log_of(*[("a", "x" * 200)] * 4)
    assert not due(log, min_cleanable_dirty_ratio=1.0, first_dirty=2, now_ms=1500, max_compaction_lag_ms=500)
    assert due(log, min_cleanable_dirty_ratio=1.0, first_dirty=2, now_ms=1501, max_compaction_lag_ms=500)


def test_records_younger_than_the_minimum_lag_are_not_compacted() -> None:
    log = log_of(*[("a", "x" * 200)] * 4)
    assert not due(log, now_ms=1500, min_compaction_lag_ms=501)
    assert due(log, now_ms=1500, min_compaction_lag_ms=500)


def test_a_cleaner_checkpoint_outside_of_the_log_is_ignored() -> None:
    log = log_of(("a", "1"), ("a", "2"))
    assert compact(log, first_dirty=99) == 2
    assert left(log) == [(1, "a", "2")]
