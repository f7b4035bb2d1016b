"""Store: the disk port over a real file system.

Own rule: every write names its position (`pwrite`), never the kernel's file pointer. What a failed append left behind
is therefore overwritten by the next one even if cutting it back failed as well.
A file is closed by `close` or when nobody holds it any more: a range being sent outlives the removal of its segment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Sequence
from typing import Final

from mqcore.disk.port import Buffer

_MOST_CHUNKS: Final = 1024  # IOV_MAX
_LARGE: Final = 8 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_fdatasync = getattr(os, "fdatasync", os.fsync)  # not every POSIX system has it


class PosixFile:
    """One file descriptor and the size that we gave the file."""

    __slots__ = ("_descriptor", "_size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def append(self, chunks: Sequence[Buffer]) -> None:
        if len(chunks) == 1:  # the hot path: one batch, one call
            chunk = chunks[0]
            try:
                written = os.pwrite(self._descriptor, chunk, self._size)
            except OSError:
                self._cut_back()
                raise
            if written == len(chunk):
                self._size += written
                return
            rest: list[Buffer] = [memoryview(chunk)[written:]]
        else:
            written, rest = 0, [chunk for chunk in chunks if len(chunk)]
        try:
            self._size += written + self._write_all(rest, self._size + written)
        except OSError:
            self._cut_back()
            raise

    def _write_all(self, rest: list[Buffer], position: int) -> int:
        """Short writes go on where they ended; an error is the system's answer, not ours to repeat."""
        start = position
        while rest:
            taken = os.pwritev(self._descriptor, rest[:_MOST_CHUNKS], position)
            position += taken
            while rest and taken >= len(rest[0]):
                taken -= len(rest.pop(0))
            if taken:
                rest[0] = memoryview(rest[0])[taken:]
        return position - start

    def _cut_back(self) -> None:
        with contextlib.suppress(OSError):  # the first fault is the one to report
            os.ftruncate(self._descriptor, self._size)

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        if self._descriptor < 0:  # Python would call it a ValueError
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        _fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: the constructor failed
            self.close()


class PosixDisk:
    """The folder `root` and everything below it; the folder is made if it is not there."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)
        os.makedirs(self._root, exist_ok=True)
        self._spare = os.open(self._root, _FOLDER)
        self._spare_lock = threading.Lock()

    @property
    def root(self) -> str:
        return self._root

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> PosixFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return PosixFile(os.open(self._path(path), flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def size(self, path: str) -> int:
        return os.stat(self._path(path)).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(self._path(path)).st_mtime_ns // 1_000_000

    def names(self, directory: str) -> list[str]:
        with os.scandir(self._path(directory)) as entries:
            return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)

    def make_directory(self, path: str) -> None:
        os.makedirs(self._path(path), exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._path(old), self._path(new))

    def remove(self, path: str) -> None:
        full = self._path(path)
        try:
            if os.path.isdir(full) and not os.path.islink(full):
                for name in os.listdir(full):
                    if not os.path.isdir(f"{full}/{name}"):
                        _unlink(f"{full}/{name}")
                shutil.rmtree(full)
            else:
                _unlink(full)
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        """Uses a spare descriptor when there is no other: the caller has renamed files, and cannot take that back."""
        try:
            descriptor = os.open(self._path(path), _FOLDER)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._sync_directory_by_spare(path)
            return
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            if self._spare < 0:  # another thread took the descriptor before
                with self._spare_lock, contextlib.suppress(OSError):
                    self._close_spare()
                    self._spare = os.open(self._root, _FOLDER)

    def _sync_directory_by_spare(self, path: str) -> None:
        with self._spare_lock:
            self._close_spare()
            self._spare = os.open(self._path(path), _FOLDER)
            os.fsync(self._spare)

    def _close_spare(self) -> None:
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: the constructor failed
            self._close_spare()

    def read_whole(self, path: str) -> bytes:
        with open(self._path(path), "rb") as file:
            return file.read()

    def replace(self, path: str, content: bytes) -> None:
        beside = f"{path}.tmp"
        file = self.open(beside, create=True)
        try:
            file.truncate(0)  # a crash may have left an older attempt
            file.append([content])
            file.sync()
        finally:
            file.close()
        self.rename(beside, path)
        self.sync_directory(os.path.dirname(path))

    def free_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize


def _unlink(path: str) -> None:
    """The name goes now. The pages of a large file, which take the kernel up to 0.2 s a gigabyte, are given back when
    nobody holds it any more: so the last hold is let go on a thread."""
    if os.lstat(path).st_size < _LARGE:
        os.unlink(path)
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # without a descriptor it takes its time here
        os.unlink(path)
        return
    try:
        os.unlink(path)
    finally:
        threading.Thread(target=os.close, args=(descriptor,), name="unlink", daemon=True).start()
