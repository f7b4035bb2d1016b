"""Shell: one connection to another broker, and the frames that come in on it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

FRAME_BYTES_MAX: Final = 1 << 28
_LENGTH: Final = struct.Struct(">i")


class LinkConnection(asyncio.BufferedProtocol):
    """Each frame is received into a buffer of its own, so `on_frame` may keep it."""

    def __init__(self, on_frame: Callable[[memoryview], None], on_lost: Callable[[str], None]) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._length = memoryview(bytearray(_LENGTH.size))
        self._target = self._length
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost("the connection was closed" if exc is None else str(exc))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._target[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._target):
            return
        filled, self._filled = self._target, 0
        if filled is not self._length:
            self._target = self._length
            self._on_frame(filled)
            return
        (length,) = _LENGTH.unpack(filled)
        if not _LENGTH.size <= length <= FRAME_BYTES_MAX:
            self.abort()
            return
        self._target = memoryview(bytearray(length))

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def write(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
