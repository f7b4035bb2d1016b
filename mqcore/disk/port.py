"""The port: what the broker asks of a file system. `posix` answers with a real one, `memory` with a twin
that can lose power; tests/contract runs one suite against both.

Rules of the port:
* Every call is synchronous. Only `File.sync` is slow enough to be taken off the event loop, and it is
  the only call that may run on another thread while the loop goes on appending to the same file.
* Faults are `OSError` with errno (ENOSPC, EIO, EMFILE, …). Nothing here retries, logs or decides.
* Paths are relative to the disk's root, with "/" between names.
* Creating, renaming and removing names is durable only after `sync_directory` of the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, appended at its end and read anywhere."""

    @property
    def size(self) -> int:
        """Bytes in the file, as last written by us; no system call."""
        ...

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write all chunks at the end, or raise and leave the size as it was (a half-written tail is cut back)."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until everything appended before the call is durable (fdatasync). A fault is final: never retry."""
        ...

    def close(self) -> None:
        """Give the file back. Reads that are under way by the same object must have ended. Idempotent."""
        ...


class Disk(Protocol):
    """A tree of files below one root."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; `create` makes it if absent (then sync the folder yourself)."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def names(self, directory: str) -> list[str]:
        """The names in a folder, sorted; folders end with "/". A missing folder is FileNotFoundError."""
        ...

    def make_directory(self, path: str) -> None:
        """Make it and its parents; fine if it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomically, replacing `new` if there is one. Works for folders too."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; fine if it is gone."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def read_whole(self, path: str) -> bytes: ...

    def replace(self, path: str, content: bytes) -> None:
        """Make `path` hold `content`, atomically and durably: write beside, sync, rename, sync the folder."""
        ...

    def free_bytes(self) -> int: ...
