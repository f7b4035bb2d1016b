"""Store: what a connection still has to send, in order and in large writes.

Own rule: a slice of a log is read just before it is written, at most `READ_PIECE_BYTES` at a time. Buffers around it go
into the same write, because the client cannot use the response before its last byte.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable

from mqcore.wire.batches import Buffer
from mqcore.wire.fast_primitives import BUFFERS, Piece, SliceLike

READ_PIECE_BYTES = 1024 * 1024
SMALL_PIECE_BYTES = 16 * 1024


class Outgoing:
    __slots__ = ("_pieces", "_sent_of_slice")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._sent_of_slice = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, pieces: Iterable[Piece]) -> None:
        self._pieces += pieces

    def clear(self) -> None:
        self._pieces.clear()

    def take(self, read_bytes_max: int = READ_PIECE_BYTES) -> tuple[list[Buffer], int, int]:
        """(the next buffers to write together, their bytes, how many of those were in memory already). At most
        `read_bytes_max` are read from logs. `OSError` if a log cannot be read."""
        pieces = self._pieces
        parts: list[Buffer] = []
        size = in_memory = 0
        while pieces:
            piece = pieces[0]
            if isinstance(piece, BUFFERS):
                if size >= 2 * READ_PIECE_BYTES:
                    break
                pieces.popleft()
                part: Buffer = piece
                in_memory += len(part)
            elif size < SMALL_PIECE_BYTES:
                part = self._read(piece, read_bytes_max)
            elif size < read_bytes_max:
                part = self._read(piece, read_bytes_max - size)
            else:
                break
            size += len(part)
            parts.append(part)
        return parts, size, in_memory

    def _read(self, piece: SliceLike, bytes_max: int) -> bytes:
        """The response header has already announced the length of the slice, so a short read is an error."""
        wanted = min(bytes_max, piece.length - self._sent_of_slice)
        data = piece.read_part(self._sent_of_slice, wanted)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"read {len(data)} bytes of a log, expected {wanted}")
        self._sent_of_slice += wanted
        if self._sent_of_slice == piece.length:
            self._pieces.popleft()
            self._sent_of_slice = 0
        return data
