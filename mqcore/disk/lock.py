"""Shell: one process for each data directory, for as long as it lives.

Own rule: the lock is the kernel's (`flock`), so it goes with its process however that ends; the pid in the file is only
for the message to whoever comes second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

LOCK_FILE: Final = ".lock"


class DirectoryLocked(Exception):
    """Another process works on this data directory."""

    def __init__(self, directory: str, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"data directory {directory} is in use by {holder}")
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """Held from construction to `release`; `DirectoryLocked` if it is taken."""

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
        """Idempotent. The file stays: removing it would let two processes lock two files of one name."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
