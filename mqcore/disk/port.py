"""Port: what the broker needs of a file system. `posix` is the real one; `memory` is a simulated one that can lose
power. tests/contract runs the same suite against both.

Rules of the port:
* Every call is synchronous. Only `File.sync` is slow enough to run outside of the event loop, and it is the only call
  that may run on another thread while the loop appends to the same file.
* Faults are `OSError` with an errno (ENOSPC, EIO, EMFILE, …). Nothing here retries, logs or decides.
* Paths are relative to the disk's root, with "/" between names.
* A name that was created, renamed or removed is durable only after `sync_directory` of its folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file that is appended at its end and read at any position."""

    @property
    def size(self) -> int:
        """The size after our last write. Makes no system call."""
        ...

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write all chunks at the end. If that fails, raise and cut off a partial write, so the size is unchanged."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until everything appended before the call is durable (fdatasync). Never retry after a fault."""
        ...

    def close(self) -> None:
        """Close the file. No read on the same object may be running. Idempotent."""
        ...


class Disk(Protocol):
    """A tree of files below one root."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. `create` makes a missing file; the caller then syncs the folder."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def names(self, directory: str) -> list[str]:
        """The sorted names in a folder; folder names end with "/". Raises FileNotFoundError for a missing folder."""
        ...

    def make_directory(self, path: str) -> None:
        """Make the folder and its parents. An existing folder is not an error."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder atomically, replacing a file at `new`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a folder with its content. A missing path is not an error."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def read_whole(self, path: str) -> bytes: ...

    def replace(self, path: str, content: bytes) -> None:
        """Atomically and durably write the file: write a temporary file, sync it, rename it, sync the folder."""
        ...

    def free_bytes(self) -> int: ...
