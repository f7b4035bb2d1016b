"""Shell: a lock that lets only one process at a time use a data directory.

Own rule: the kernel holds the lock (`flock`), so it ends with its process, even if that is killed. The pid in the file
is only for the error message of a second process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

LOCK_FILE: Final = ".lock"


class DirectoryLocked(Exception):
    """Another process uses this data directory."""

    def __init__(self, directory: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"data directory {directory} is in use by {holder}")
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """Held from construction to `release`. The constructor raises `DirectoryLocked` if another process holds it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        path = os.path.join(directory, LOCK_FILE)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = self._holder()
            self.release()
            if isinstance(error, BlockingIOError):
                raise DirectoryLocked(os.fspath(directory), pid) from None
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def _holder(self) -> int | None:
        with contextlib.suppress(ValueError):
            return int(os.pread(self._descriptor, 32, 0))
        return None

    def release(self) -> None:
        """Idempotent. The file stays, because removing it would let two processes lock two files of the same name."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
