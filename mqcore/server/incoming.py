"""Store: the receive buffer of a connection. Frames are views into the buffer, so they are not copied.

Own rule: the buffer grows with the bytes that have arrived, never with the length that a frame announces.
"""

from __future__ import annotations

import struct

FIRST_BUFFER_BYTES = 16 * 1024

_LENGTH = struct.Struct(">i")


class Incoming:
    __slots__ = ("_buffer", "_end", "_start", "_view")

    def __init__(self) -> None:
        self._buffer = bytearray(FIRST_BUFFER_BYTES)
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

    def free_space(self) -> memoryview:
        """Where the socket writes the next bytes."""
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_length(self) -> int | None:
        """The length that the next frame announces; None until its four bytes have arrived."""
        if self._end - self._start < 4:
            return None
        length: int = _LENGTH.unpack_from(self._buffer, self._start)[0]
        return length

    def take(self, length: int) -> memoryview | None:
        """The next frame without its length, or None if it is incomplete. Valid until the loop reads again."""
        start = self._start + 4
        stop = start + length
        if stop > self._end:
            return None
        if stop == self._end:
            self._start = self._end = 0
        else:
            self._start = stop
        return self._view[start:stop]

    def make_room(self, frame_bytes: int) -> int:
        """Move the next frame to the front if it would not fit. Returns how many bytes the buffer should grow by now;
        it at most doubles."""
        pending = self._end - self._start
        if self._start and self._start + frame_bytes > len(self._buffer):
            self._view[:pending] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, pending
        if pending < len(self._buffer) or frame_bytes <= len(self._buffer):
            return 0
        return min(frame_bytes, 2 * len(self._buffer)) - len(self._buffer)

    def resize(self, capacity: int) -> None:
        """Grow. Views handed out before stay valid, because they keep the old buffer."""
        buffer = bytearray(capacity)
        view = memoryview(buffer)
        view[: self._end] = self._view[: self._end]  # view to view, because Python copies twice otherwise
        self._buffer, self._view = buffer, view

    def shrink(self, capacity: int) -> None:
        """Move the pending bytes to the front of a smaller buffer; they must fit into `capacity`."""
        if capacity < len(self._buffer):
            pending = self._view[self._start : self._end]
            buffer = bytearray(capacity)
            view = memoryview(buffer)
            view[: len(pending)] = pending
            self._buffer, self._view = buffer, view
            self._start, self._end = 0, len(pending)
