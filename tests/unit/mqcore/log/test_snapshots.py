"""Producer snapshots: how many are kept, and which one is used."""

from __future__ import annotations

from mqcore.disk.memory import MemoryDisk
from mqcore.log.snapshots import snapshot_offsets
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, append, batch, open_log

CONFIG = LogConfig(segment_bytes=300)


def filled(disk: MemoryDisk) -> LastSequences:
    observer = LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for number in range(20):
        append(log, batch([b"x" * 50], producer=number % 4, sequence=number))
    return observer


def test_the_newest_three_snapshots_are_kept_and_a_clean_stop_adds_one() -> None:
    disk = MemoryDisk()
    filled(disk)
    rolled = snapshot_offsets(disk, DIRECTORY)
    assert len(rolled) == 3
    disk.crash("kill")
    log = open_log(disk, CONFIG, recovery_point=rolled[-1])
    log.close()
    assert snapshot_offsets(disk, DIRECTORY) == [*rolled[1:], 20]


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_a_replay() -> None:
    disk = MemoryDisk()
    wanted = filled(disk)
    for damaged in range(4):
        disk.crash("kill")
        offsets = snapshot_offsets(disk, DIRECTORY)
        if damaged:
            disk.replace(f"{DIRECTORY}/{offsets[-damaged]:020d}.snapshot", b"\0" * 30)
        observer = LastSequences()
        log = open_log(disk, CONFIG, recovery_point=18, observer=observer)
        assert observer.last == wanted.last
        assert (log.recovery.replayed_batches > 0) == (damaged > 0)


def test_a_snapshot_of_removed_batches_is_not_used() -> None:
    disk, observer = MemoryDisk(), LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for number in range(20):
        append(log, batch([b"x" * 50], producer=number % 4, sequence=number))
    log.truncate_to(2)
    assert [offset for offset in snapshot_offsets(disk, DIRECTORY) if offset > 2] == []
    assert observer.last == {0: (0, 0), 1: (1, 1)}


def test_a_new_log_in_a_folder_with_an_old_snapshot_knows_no_producer() -> None:
    disk, observer = MemoryDisk(), LastSequences()
    filled(disk)
    for name in disk.names(DIRECTORY):
        if name.endswith(".log"):
            disk.remove(f"{DIRECTORY}/{name}")
    observer.last = {9: (9, 9)}
    open_log(disk, CONFIG, observer=observer)
    assert observer.last == {}
    assert snapshot_offsets(disk, DIRECTORY) == []


def test_a_start_after_many_rolls_reads_no_header_below_the_recovery_point() -> None:
    """Segments roll much more often than the recovery point is stored."""
    for stored_between in (0, 30):
        disk, observer = MemoryDisk(), LastSequences()
        log = open_log(disk, CONFIG, observer=observer)
        for number in range(100):
            append(log, batch([b"x" * 50], producer=number % 4, sequence=number))
            if number == 20:
                point = log.sync()
            if number == 20 + stored_between:
                log.recovery_point = point
        disk.crash("kill")
        found = LastSequences()
        again = open_log(disk, CONFIG, recovery_point=point, observer=found)
        assert found.last == observer.last and again.end_offset == 100
        assert again.recovery.replayed_batches == 0
        assert again.recovery.scanned_batches <= 100 - point + 3


def test_snapshots_that_no_start_needs_are_removed() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    for number in range(100):
        append(log, batch([b"x" * 50], producer=number % 4, sequence=number))
        if number % 10 == 9:
            log.recovery_point = log.sync()
    assert len(snapshot_offsets(disk, DIRECTORY)) <= 8


def test_snapshots_of_batches_lost_with_the_power_are_removed() -> None:
    """The log lost its end exactly between two batches, so nothing in it is torn."""
    disk, observer = MemoryDisk(), LastSequences()
    log = open_log(disk, CONFIG)
    for number in range(30):
        append(log, batch([b"x" * 50], producer=1, sequence=number))
    base = log.segments.bases[-2]
    for name in disk.names(DIRECTORY):
        if name.endswith((".log", "index")) and int(name[:20]) >= base:
            disk.remove(f"{DIRECTORY}/{name}")
    log = open_log(disk, CONFIG)
    assert log.end_offset == base
    assert max(snapshot_offsets(disk, DIRECTORY)) == base
    while log.end_offset < 60:  # beyond the offsets of the lost snapshots
        append(log, batch([b"x" * 50], producer=2, sequence=log.end_offset))
    log.sync()
    disk.crash("kill")
    open_log(disk, CONFIG, recovery_point=60, observer=observer)
    assert observer.last == {1: (base - 1, base - 1), 2: (59, 59)}
