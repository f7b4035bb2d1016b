"""Store: what a connection has still to send, in order and in large writes; slices of logs are read part by part.

Own rule: a slice is read when it is about to be written, never more than `READ_PIECE` of it; what stands around it is
written with it, for its client waits for the last byte.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable

from mqcore.wire.batches import Buffer
from mqcore.wire.hot import BUFFERS, Piece, SliceLike

READ_PIECE = 1024 * 1024
SMALL = 16 * 1024


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

    def take(self, most: int = READ_PIECE) -> tuple[list[Buffer], int, int]:
        """(the next bytes, as many as make one good write, their number, how many of them were in memory before): up to
        `most` are read from logs. `OSError` if a log cannot be read."""
        pieces = self._pieces
        parts: list[Buffer] = []
        size = buffers = 0
        while pieces:
            piece = pieces[0]
            if isinstance(piece, BUFFERS):
                if size >= 2 * READ_PIECE:
                    break
                pieces.popleft()
                part: Buffer = piece
                buffers += len(part)
            elif size < SMALL:
                part = self._read(piece, most)
            elif size < most:
                part = self._read(piece, most - size)
            else:
                break
            size += len(part)
            parts.append(part)
        return parts, size, buffers

    def _read(self, piece: SliceLike, most: int) -> bytes:
        """Its length was promised to the client, so there is no sending less."""
        wanted = min(most, piece.length - self._sent_of_slice)
        data = piece.read_part(self._sent_of_slice, wanted)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"{wanted} bytes of a log were promised, {len(data)} are there")
        self._sent_of_slice += wanted
        if self._sent_of_slice == piece.length:
            self._pieces.popleft()
            self._sent_of_slice = 0
        return data
