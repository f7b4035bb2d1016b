"""What only a real system does: short writes, faults in the middle of a call, descriptors that run out."""

from __future__ import annotations

import errno
import gc
import os
import resource
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqcore.disk import posix
from mqcore.disk.port import Buffer
from mqcore.disk.posix import PosixDisk


@pytest.fixture
def disk(tmp_path: Path) -> PosixDisk:
    return PosixDisk(tmp_path)


def test_short_writes_are_continued(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, memoryview(data)[:3], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, rest, at: pwritev(fd, [memoryview(rest[0])[:2]], at))
    file = disk.open("a", create=True)
    file.append([b"0123456789"])
    file.append([b"abc", b"defgh"])
    assert disk.read_whole("a") == b"0123456789abcdefgh"
    assert file.size == 18


def test_a_fault_in_the_middle_of_a_write_leaves_the_file_unchanged(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("a", create=True)
    file.append([b"before"])
    pwritev, calls = os.pwritev, 0

    def half_then_full(fd: int, rest: Sequence[Buffer], at: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "full")
        return pwritev(fd, [memoryview(rest[0])[:2]], at)

    monkeypatch.setattr(os, "pwritev", half_then_full)
    with pytest.raises(OSError) as caught:
        file.append([b"abc", b"def"])
    assert caught.value.errno == errno.ENOSPC
    assert calls == 2
    assert disk.read_whole("a") == b"before"
    monkeypatch.undo()
    file.append([b"!"])
    assert disk.read_whole("a") == b"before!"


def test_a_partial_write_that_could_not_be_cut_off_is_overwritten_by_the_next_append(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("a", create=True)
    pwrite = os.pwrite

    def short(fd: int, data: Buffer, at: int) -> int:
        return pwrite(fd, memoryview(data)[:1], at)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwrite", short)
    monkeypatch.setattr(os, "pwritev", fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    with pytest.raises(OSError, match="broken"):
        file.append([b"xyz"])
    monkeypatch.undo()
    file.append([b"abc"])
    assert disk.read_whole("a") == b"abc"


def test_short_reads_are_continued(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("a", create=True)
    file.append([b"0123456789"])
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(5, 99) == b"56789"


def test_a_file_without_references_frees_its_descriptor(
    disk: PosixDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    close = os.close

    def watched(descriptor: int) -> None:
        closed.append(os.fstat(descriptor).st_ino)
        close(descriptor)

    monkeypatch.setattr(os, "close", watched)
    file = disk.open("a", create=True)
    held = [file]
    del file
    gc.collect()
    inode = (tmp_path / "a").stat().st_ino
    assert inode not in closed  # a slice still references the file
    held.clear()
    gc.collect()
    assert inode in closed


def test_running_out_of_descriptors_is_an_oserror_with_its_errno(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(OSError) as caught:
        disk.open("a", create=True)
    assert caught.value.errno == errno.EMFILE


def test_a_large_file_is_unlinked_at_once_and_its_space_freed_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "_LARGE_FILE_BYTES_MIN", 3)
    closers: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: closers.append(thread))
    disk = PosixDisk(tmp_path)
    disk.make_directory("orders-0")
    for name in ("orders-0/large", "orders-0/small", "alone"):
        disk.open(name, create=True).append((b"12" if name.endswith("small") else b"123",))
    disk.remove("orders-0")
    disk.remove("alone")
    assert disk.names("") == [] and len(closers) == 2
    for closer in closers:
        closer.run()


def test_a_folder_is_synced_without_a_free_descriptor(tmp_path: Path) -> None:
    disk = PosixDisk(tmp_path)
    disk.make_directory("orders-0")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, before[1]))
    taken = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(3):
            disk.sync_directory("orders-0")
        with pytest.raises(FileNotFoundError):
            disk.sync_directory("gone")
        os.close(taken.pop())
        disk.sync_directory("orders-0")
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_large_file_is_removed_without_a_free_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "_LARGE_FILE_BYTES_MIN", 3)
    disk = PosixDisk(tmp_path)
    disk.open("large", create=True).append((b"123",))

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("os.open", refuse)
    disk.remove("large")
    assert not disk.exists("large")
