"""The simulated disk must be harsh, because tests cannot find a defect that it forgives."""

from __future__ import annotations

import errno

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.disk.platter import SECTOR


def survivors(kind: str, *, sync_file: bool, sync_folder: bool) -> set[bytes | None]:
    """Every content that a small file can have after a crash, over many seeds; None if its name is lost."""
    found: set[bytes | None] = set()
    for seed in range(60):
        disk = MemoryDisk(seed)
        file = disk.open("a", create=True)
        file.append([b"data"])
        if sync_file:
            file.sync()
        if sync_folder:
            disk.sync_directory("")
        disk.crash(kind)  # type: ignore[arg-type]
        found.add(disk.read_whole("a").rstrip(b"\0") if disk.exists("a") else None)
    return found


def test_a_kill_keeps_everything_that_was_written() -> None:
    assert survivors("kill", sync_file=False, sync_folder=False) == {b"data"}


def test_a_power_loss_may_keep_or_lose_unsynced_data() -> None:
    assert survivors("power", sync_file=False, sync_folder=False) == {b"data", b"", None}


def test_a_synced_file_with_an_unsynced_name_may_disappear() -> None:
    assert survivors("power", sync_file=True, sync_folder=False) == {b"data", None}


def test_a_synced_name_without_synced_bytes_may_be_empty() -> None:
    assert survivors("power", sync_file=False, sync_folder=True) == {b"data", b""}


def test_synced_data_always_survives() -> None:
    assert survivors("power", sync_file=True, sync_folder=True) == {b"data"}


def test_later_sectors_may_survive_without_earlier_ones() -> None:
    torn = set()
    for seed in range(80):
        disk = MemoryDisk(seed)
        file = disk.open("a", create=True)
        disk.sync_directory("")
        file.append([b"\1" * SECTOR, b"\2" * SECTOR, b"\3" * SECTOR])
        disk.crash("power")
        content = disk.read_whole("a")
        torn.add(tuple(content[at] for at in range(0, min(len(content), 3 * SECTOR), SECTOR)))
    assert (0, 2, 3) in torn or (0, 0, 3) in torn or (1, 0, 3) in torn
    assert (1, 2, 3) in torn


def test_a_rename_survives_completely_or_not_at_all() -> None:
    found = set()
    for seed in range(60):
        disk = MemoryDisk(seed)
        disk.replace("a", b"old")
        disk.replace("b", b"new")
        disk.rename("b", "a")
        disk.crash("power")
        found.add((tuple(disk.names("")), disk.read_whole("a")))
    assert found == {(("a", "b"), b"old"), (("a",), b"new")}


def test_an_unsynced_truncation_may_be_undone() -> None:
    found = set()
    for seed in range(60):
        disk = MemoryDisk(seed)
        disk.replace("a", b"123456")
        disk.open("a").truncate(2)
        disk.crash("power")
        found.add(disk.read_whole("a").rstrip(b"\0"))
    assert found == {b"12", b"123456"}


def test_the_same_seed_loses_the_same_data() -> None:
    def once() -> dict[str, bytes]:
        disk = MemoryDisk(7)
        for name in "abcdef":
            disk.open(name, create=True).append([name.encode() * 2000])
        disk.crash("power")
        return {name: disk.read_whole(name) for name in disk.names("")}

    assert once() == once()


@pytest.mark.parametrize(("when", "left"), [("before", b"1"), ("after", b"12")])
def test_an_injected_crash_comes_before_or_after_the_nth_change(when: str, left: bytes) -> None:
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    disk.crash_at(2, when)  # type: ignore[arg-type]
    file.append([b"1"])
    with pytest.raises(Crashed):
        file.append([b"2"])
    for call in (lambda: file.read(0, 1), lambda: disk.open("a"), lambda: disk.names("")):
        with pytest.raises(Crashed):
            call()
    disk.crash("kill")
    assert disk.read_whole("a") == left
    with pytest.raises(OSError) as caught:
        file.read(0, 1)
    assert caught.value.errno == errno.EBADF


def test_a_crash_during_an_append_leaves_a_prefix_of_it() -> None:
    lengths = set()
    for seed in range(30):
        disk = MemoryDisk(seed)
        file = disk.open("a", create=True)
        disk.crash_at(1, "during")
        with pytest.raises(Crashed):
            file.append([b"0123456789"])
        disk.crash("kill")
        content = disk.read_whole("a")
        assert b"0123456789".startswith(content)
        lengths.add(len(content))
    assert len(lengths) > 5


def test_injected_faults_hit_their_kind_of_call_skip_some_and_end() -> None:
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    disk.fail("sync", errno.EIO, skip=1, times=2)
    file.sync()
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.sync()
        assert caught.value.errno == errno.EIO
    file.sync()


def test_a_full_disk_writes_nothing_in_part_and_works_again_once_there_is_space() -> None:
    disk = MemoryDisk(capacity=10)
    file = disk.open("a", create=True)
    file.append([b"12345"])
    with pytest.raises(OSError) as caught:
        file.append([b"678901"])
    assert caught.value.errno == errno.ENOSPC
    assert disk.read_whole("a") == b"12345"
    disk.capacity = 11
    file.append([b"678901"])
    assert disk.free_bytes() == 0
