"""What the log relies on, checked on a real disk and on the simulated one in memory."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk


@pytest.fixture(params=["posix", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return PosixDisk(tmp_path / "data") if request.param == "posix" else MemoryDisk()


def test_appended_chunks_are_read_back_in_order_from_any_position(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"one", bytearray(b"-two"), memoryview(b"-three")])
    file.append([b"!"])
    assert file.size == disk.size("a") == 14
    assert file.read(0, 14) == b"one-two-three!"
    assert file.read(4, 3) == b"two"


def test_a_read_across_the_end_is_short_and_beyond_the_end_empty(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"12345"])
    assert file.read(3, 100) == b"45"
    assert file.read(5, 1) == b""
    assert file.read(99, 1) == b""


def test_empty_chunks_and_no_chunks_change_nothing(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([])
    file.append([b""])
    file.append([b"", b"x", b""])
    assert (file.size, file.read(0, 9)) == (1, b"x")


def test_more_chunks_than_one_system_call_accepts_are_appended_completely(disk: Disk) -> None:
    file = disk.open("a", create=True)
    chunks = [b"%d," % number for number in range(3000)]
    file.append(chunks)
    assert file.read(0, file.size) == b"".join(chunks)


def test_after_a_truncation_the_next_append_continues_there(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"123456"])
    file.truncate(2)
    assert file.size == 2
    file.append([b"x"])
    assert file.read(0, 9) == b"12x"
    file.sync()


def test_a_file_that_is_opened_again_has_its_size_and_content(disk: Disk) -> None:
    disk.open("a", create=True).append([b"123"])
    again = disk.open("a")
    again.append([b"4"])
    assert disk.read_whole("a") == b"1234"


def test_opening_or_reading_a_missing_file_raises_file_not_found(disk: Disk) -> None:
    for call in (disk.open, disk.size, disk.modified_ms, disk.read_whole, disk.names):
        with pytest.raises(FileNotFoundError):
            call("nowhere")
    with pytest.raises(FileNotFoundError):
        disk.rename("nowhere", "somewhere")
    with pytest.raises(FileNotFoundError):
        disk.open("folder/file", create=True)
    assert not disk.exists("nowhere")


def test_names_are_sorted_and_folders_end_with_a_slash(disk: Disk) -> None:
    disk.make_directory("b/c")
    disk.make_directory("b/c")
    disk.open("z", create=True)
    disk.open("a", create=True)
    assert disk.names("") == ["a", "b/", "z"]
    assert disk.names("b") == ["c/"]
    assert disk.exists("b/c")


def test_rename_replaces_a_file_and_moves_a_folder_with_its_content(disk: Disk) -> None:
    disk.make_directory("old")
    disk.open("old/a", create=True).append([b"1"])
    disk.open("old/b", create=True).append([b"2"])
    disk.rename("old/a", "old/b")
    disk.rename("old", "new")
    disk.sync_directory("")
    assert disk.names("") == ["new/"]
    assert disk.names("new") == ["b"]
    assert disk.read_whole("new/b") == b"1"


def test_remove_deletes_files_and_folders_and_ignores_missing_ones(disk: Disk) -> None:
    disk.make_directory("folder/inner")
    disk.open("folder/inner/a", create=True)
    disk.open("b", create=True)
    disk.remove("folder")
    disk.remove("b")
    disk.remove("b")
    assert disk.names("") == []


def test_an_open_file_stays_readable_when_it_is_renamed_removed_or_replaced(disk: Disk) -> None:
    held = {name: disk.open(name, create=True) for name in ("renamed", "removed", "replaced")}
    for name, file in held.items():
        file.append([name.encode()])
    disk.rename("renamed", "elsewhere")
    disk.remove("removed")
    disk.replace("replaced", b"new")
    for name, file in held.items():
        assert file.read(0, 99) == name.encode()


def test_replace_creates_or_overwrites_a_file_and_leaves_no_temporary_file(disk: Disk) -> None:
    disk.make_directory("folder")
    disk.open("folder/a.tmp", create=True).append([b"an attempt that a crash ended, and longer"])
    disk.replace("folder/a", b"one")
    disk.replace("folder/a", b"2")
    assert disk.read_whole("folder/a") == b"2"
    assert disk.names("folder") == ["a"]


def test_a_closed_file_rejects_writes_and_may_be_closed_twice(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.close()
    file.close()
    for call in (lambda: file.append([b"x"]), lambda: file.read(0, 1), file.sync):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_free_space_and_modification_times_are_known(disk: Disk) -> None:
    assert disk.free_bytes() > 0
    disk.open("a", create=True)
    assert disk.modified_ms("a") >= 0
