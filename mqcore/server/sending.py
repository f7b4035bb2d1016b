"""Shell: the sending half of a connection: what is left to send, the memory it takes, and whether the client reads.

A response counts in the send budget from when it is encoded until the kernel has taken it. The transport pauses us
when the kernel's buffer is full. Until it resumes, the whole last write counts, because its buffers stay in memory.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Iterable

from mqcore.metrics import Cell
from mqcore.server.budgets import SendBudget
from mqcore.server.outgoing import READ_PIECE_BYTES, SMALL_PIECE_BYTES, Outgoing
from mqcore.wire.fast_primitives import Piece

TRANSPORT_BUFFER_BYTES_MAX = 16 * 1024
JOINED_WRITE_BYTES_MAX = 16 * 1024
"""Up to this size, copying the buffers into one is cheaper than passing a list of buffers."""

_INT = struct.Struct("i")


class Sending:
    __slots__ = (
        "_budget",
        "_bytes_out",
        "_in_transport",
        "_last_write",
        "_outgoing",
        "_transport",
        "_unacknowledged",
        "held",
        "stalled_since",
    )

    def __init__(self, budget: SendBudget, bytes_out: Cell) -> None:
        self.held = 0  # bytes in the send budget
        self.stalled_since: float | None = None  # since when the client has taken nothing; None while it keeps up
        self._budget = budget
        self._bytes_out = bytes_out
        self._outgoing = Outgoing()
        self._transport: asyncio.Transport | None = None
        self._last_write = 0  # bytes
        self._in_transport = 0  # bytes that the paused transport keeps in memory
        self._unacknowledged = 0  # bytes that the client has not acknowledged, in the transport and in the kernel

    def __len__(self) -> int:
        return len(self._outgoing)

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=TRANSPORT_BUFFER_BYTES_MAX)

    def discard(self) -> None:
        """Send nothing more."""
        self._outgoing.clear()

    def close(self) -> None:
        """The connection is closed, so nothing it held counts any more."""
        self.discard()
        self._transport = None
        self._in_transport = 0
        self.charge(-self.held)

    def charge(self, more: int) -> None:
        self.held += more
        self._budget.held += more

    def add(self, pieces: Iterable[Piece]) -> None:
        """Queue pieces that were charged when they were encoded."""
        self._outgoing.add(pieces)

    def write(self) -> None:
        """Write the next pieces; `OSError` if a log cannot be read."""
        assert self._transport is not None
        budget = self._budget
        has_room = budget.has_room(READ_PIECE_BYTES)
        parts, size, in_memory = self._outgoing.take(READ_PIECE_BYTES if has_room else SMALL_PIECE_BYTES)
        self._bytes_out.value += size
        self._last_write = size
        self.held -= in_memory
        budget.held -= in_memory
        if size <= JOINED_WRITE_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    # ── a client that does not keep up ───────────────────────────────────────────────────────────

    def pause(self, now: float) -> None:
        self.stalled_since = now
        assert self._transport is not None
        self._in_transport = max(self._last_write, self._transport.get_write_buffer_size())
        self.charge(self._in_transport)
        self._unacknowledged = _unacknowledged_bytes(self._transport)

    def resume(self) -> None:
        self.stalled_since = None
        self.charge(-self._in_transport)
        self._in_transport = 0

    def check_progress(self, now: float) -> None:
        """Restart the stall timer if the client has acknowledged anything since the last check."""
        if self.stalled_since is not None and self._transport is not None:
            before, self._unacknowledged = self._unacknowledged, _unacknowledged_bytes(self._transport)
            if self._unacknowledged < before:
                self.stalled_since = now


def _unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """Bytes in the transport and in the kernel that the client has not acknowledged. The transport alone would notice
    progress only when a good part of the kernel's buffer is free, which takes a slow reader minutes."""
    waiting = int(transport.get_write_buffer_size())
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return waiting
    try:
        queued: int = _INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0]
    except OSError:
        return waiting
    return waiting + queued
