"""Store: the disk port over a real file system.

Own rules:
* Every write gives its position (`pwrite`) and never uses the kernel's file pointer. So the next append overwrites what
  a failed one left behind, even if cutting that off failed too.
* A file is closed by `close` or with its last reference, so a range that is being sent outlives its segment.
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

_CHUNKS_MAX: Final = 1024  # the kernel's IOV_MAX
_LARGE_FILE_BYTES_MIN: Final = 8 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_fdatasync = getattr(os, "fdatasync", os.fsync)  # not every POSIX system has it


class PosixFile:
    """One file descriptor, and the size that our writes have given the file."""

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
        """Continue after short writes. An error is raised and not repeated."""
        start = position
        while rest:
            taken = os.pwritev(self._descriptor, rest[:_CHUNKS_MAX], position)
            position += taken
            while rest and taken >= len(rest[0]):
                taken -= len(rest.pop(0))
            if taken:
                rest[0] = memoryview(rest[0])[taken:]
        return position - start

    def _cut_back(self) -> None:
        with contextlib.suppress(OSError):  # the caller reports the fault of the write
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
        if self._descriptor < 0:  # `fdatasync` would raise a ValueError
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
    """The folder `root`, which is made if it is missing, and everything below it."""

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
        """Use a spare descriptor if the process has no other: the caller has renamed files and cannot undo that."""
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
            if self._spare < 0:  # another thread used up the spare descriptor
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
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)  # a crash may have left a temporary file
            file.append([content])
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def free_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize


def _unlink(path: str) -> None:
    """Unlink at once, but free the pages of a large file on a thread.

    Unlinking is instant. Freeing the pages takes the kernel up to 0.2 s per gigabyte, and happens when the last
    descriptor is closed."""
    if os.lstat(path).st_size < _LARGE_FILE_BYTES_MIN:
        os.unlink(path)
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # without a free descriptor, free the pages here
        os.unlink(path)
        return
    try:
        os.unlink(path)
    finally:
        threading.Thread(target=os.close, args=(descriptor,), name="unlink", daemon=True).start()
