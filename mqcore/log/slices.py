"""Values: a range of a segment file."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.disk.port import File


class Slice(NamedTuple):
    """A range of one segment file, read on demand. It keeps the file open, so it outlives the segment's removal."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)

    def read_part(self, start: int, length: int) -> bytes:
        """`length` bytes from `start` within the slice: as much as the socket has room for."""
        return self.file.read(self.position + start, length)
