"""Shell: the sending half of a connection: what is still to be sent, the memory it takes, and whether the client reads.

A response is counted in the send budget from its answer until the kernel has taken it. The transport pauses us as soon
as the kernel takes no more; until it resumes, all of the last write counts, because its buffers stay whole in memory.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Iterable

from mqcore.metrics import Cell
from mqcore.server.budgets import SendBudget
from mqcore.server.outgoing import READ_PIECE, SMALL, Outgoing
from mqcore.wire.hot import Piece

WRITE_HIGH_WATER = 16 * 1024
JOINED = 16 * 1024  # up to here one copy is cheaper than a list of buffers

_QUEUED = struct.Struct("i")


class Sending:
    __slots__ = (
        "_budget",
        "_bytes_out",
        "_in_transport",
        "_outgoing",
        "_transport",
        "_untaken",
        "_written",
        "held",
        "stalled_since",
    )

    def __init__(self, budget: SendBudget, bytes_out: Cell) -> None:
        self.held = 0  # bytes in the send budget
        self.stalled_since: float | None = None  # the client takes nothing; None: it is not behind
        self._budget = budget
        self._bytes_out = bytes_out
        self._outgoing = Outgoing()
        self._transport: asyncio.Transport | None = None
        self._written = 0  # bytes of the last write
        self._in_transport = 0  # bytes that the transport keeps in memory, while it is paused
        self._untaken = 0  # bytes that the client has not taken, there and in the kernel

    def __len__(self) -> int:
        return len(self._outgoing)

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    def drop(self) -> None:
        """Send nothing more."""
        self._outgoing.clear()

    def detach(self) -> None:
        """The connection is gone, and with it all that was to be sent."""
        self.drop()
        self._transport = None
        self._in_transport = 0
        self.count(-self.held)

    def count(self, more: int) -> None:
        self.held += more
        self._budget.held += more

    def add(self, pieces: Iterable[Piece]) -> None:
        """Pieces that have been counted when they were answered."""
        self._outgoing.add(pieces)

    def write(self) -> None:
        """Write the next pieces; `OSError` if a log cannot be read."""
        assert self._transport is not None
        budget = self._budget
        parts, size, buffers = self._outgoing.take(READ_PIECE if budget.has_room(READ_PIECE) else SMALL)
        self._bytes_out.value += size
        self._written = size
        self.held -= buffers
        budget.held -= buffers
        if size <= JOINED:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    # ── a client that is behind ──────────────────────────────────────────────────────────────────

    def pause(self, now: float) -> None:
        self.stalled_since = now
        assert self._transport is not None
        self._in_transport = max(self._written, self._transport.get_write_buffer_size())
        self.count(self._in_transport)
        self._untaken = _untaken(self._transport)

    def resume(self) -> None:
        self.stalled_since = None
        self.count(-self._in_transport)
        self._in_transport = 0

    def look(self, now: float) -> None:
        """See whether a client that is behind has taken anything since the last look."""
        if self.stalled_since is not None and self._transport is not None:
            before, self._untaken = self._untaken, _untaken(self._transport)
            if self._untaken < before:
                self.stalled_since = now


def _untaken(transport: asyncio.Transport) -> int:
    """Bytes that the client has not acknowledged: the transport's and the kernel's. The transport alone is told about
    progress only once a good part of the kernel's are gone, which takes a slow reader minutes."""
    waiting = int(transport.get_write_buffer_size())
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return waiting
    try:
        queued: int = _QUEUED.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_QUEUED.size)))[0]
    except OSError:
        return waiting
    return waiting + queued
