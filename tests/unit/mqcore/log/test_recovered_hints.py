"""Hints (indexes, epochs, snapshots) that are damaged, stale or missing are rebuilt."""

from __future__ import annotations

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.log.log import Log
from mqcore.wire.batches import read_header
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, open_log, stored
from tests.unit.mqcore.log.recovering import CONFIG, filled, flipped
from tests.unit.mqcore.log.searches import offset_for_time


def hints(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if not name.endswith(".log")]


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "cut", "flipped"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_indexes_epochs_and_snapshots_are_rebuilt(damage: str, clean: bool) -> None:
    disk = MemoryDisk()
    wanted, observer = filled(disk, close=True)
    assert {name.partition(".")[2] for name in hints(disk)} >= {"index", "timeindex", "snapshot"}
    for name in hints(disk):
        path = f"{DIRECTORY}/{name}"
        content = disk.read_whole(path)
        disk.remove(path)
        if damage != "missing":
            new = {
                "empty": b"",
                "zeros": bytes(len(content)),
                "cut": content[:-1],
                "flipped": flipped(content, len(content) // 2, 7),
            }
            disk.open(path, create=True).append([new[damage]])
    again = LastSequences()
    log = open_log(disk, CONFIG, clean=clean, observer=again)
    assert stored(log) == wanted
    assert again.last == observer.last
    assert log.epochs.end_offset_for(0) == (0, 10)
    assert log.epochs.end_offset_for(1) == (1, 20)
    for offset in range(25):
        piece = log.read(offset, 1, limit=25)
        assert piece is not None
        assert read_header(piece.read()).base_offset == offset
    found = offset_for_time(log, 1017, limit=25)
    assert found is not None
    assert found.offset == 17


def test_an_index_of_an_earlier_segment_of_the_same_name_is_not_used() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=True)
    path = f"{DIRECTORY}/00000000000000000000.index"
    stale = disk.read_whole(path)
    shifted = b"".join(stale[at : at + 4] + (7).to_bytes(4, "big") for at in range(0, 8, 8))
    disk.replace(path, shifted)
    log = open_log(disk, CONFIG, clean=True)
    assert [read_header(_read(log, offset)).base_offset for offset in range(5)] == list(range(5))
    assert stored(log) == wanted


def _read(log: Log, offset: int) -> bytes:
    piece = log.read(offset, 1, limit=log.end_offset)
    assert piece is not None
    return piece.read()


def test_epochs_missing_in_the_file_are_found_in_the_batches() -> None:
    disk = MemoryDisk()
    filled(disk, close=True)
    disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    for clean in (False, True):
        log = open_log(disk, CONFIG, clean=clean, recovery_point=25)
        assert log.epochs.end_offset_for(1) == (1, 20), f"clean: {clean}"
        assert log.epochs.last_epoch == 2
