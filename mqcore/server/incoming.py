"""Store: what a connection has received: frames are taken out where they arrived, without a copy.

Own rule: the buffer grows with what has come, never with what a length field promises.
"""

from __future__ import annotations

import struct

FIRST_BUFFER = 16 * 1024

_LENGTH = struct.Struct(">i")


class Incoming:
    __slots__ = ("_buffer", "_end", "_start", "_view")

    def __init__(self) -> None:
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def capacity(self) -> int:
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        return self._end == len(self._buffer)

    def room(self) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_length(self) -> int | None:
        """What the next frame says of itself; None while that has not come."""
        if self._end - self._start < 4:
            return None
        length: int = _LENGTH.unpack_from(self._buffer, self._start)[0]
        return length

    def take(self, length: int) -> memoryview | None:
        """The next frame without its length, if it is whole; valid until the loop reads again."""
        start = self._start + 4
        stop = start + length
        if stop > self._end:
            return None
        if stop == self._end:
            self._start = self._end = 0
        else:
            self._start = stop
        return self._view[start:stop]

    def make_room(self, whole: int) -> int:
        """Make the next frame fit by moving it to the front; the bytes by which the buffer should grow for that by now,
        twofold at most."""
        have = self._end - self._start
        if self._start and self._start + whole > len(self._buffer):
            self._view[:have] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, have
        if have < len(self._buffer) or whole <= len(self._buffer):
            return 0
        return min(whole, 2 * len(self._buffer)) - len(self._buffer)

    def resize(self, capacity: int) -> None:
        """The view that was given out before stays with the old buffer."""
        buffer = bytearray(capacity)
        view = memoryview(buffer)
        view[: self._end] = self._view[: self._end]  # from view to view, or Python copies it twice
        self._buffer, self._view = buffer, view

    def shrink(self, capacity: int) -> None:
        """Move what there is to the front of a smaller buffer; `capacity` is no less than that."""
        if capacity < len(self._buffer):
            pending = self._view[self._start : self._end]
            buffer = bytearray(capacity)
            view = memoryview(buffer)
            view[: len(pending)] = pending
            self._buffer, self._view = buffer, view
            self._start, self._end = 0, len(pending)
