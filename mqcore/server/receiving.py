"""Store: the receiving half of a connection: its buffer and its share of the memory for requests."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.server.budgets import ReceiveBudget
from mqcore.server.incoming import FIRST_BUFFER_BYTES, Incoming

FRAME_BYTES_MIN = 8


class Receiving:
    """`on_memory` is called when memory becomes available that a request was waiting for."""

    def __init__(self, budget: ReceiveBudget, frame_limit: int, on_memory: Callable[[], None]) -> None:
        self.address = ""
        self.incoming = Incoming()
        self.frame_limit = frame_limit
        self.frame_began_at: float | None = None  # when the first part of the next frame arrived
        self.is_starved = False  # the next request waits for memory
        self.reserved = 0  # bytes in the receive budget
        self._budget = budget
        self._on_memory = on_memory

    def close(self) -> None:
        reserved, self.reserved = self.reserved, 0
        self._budget.remove(self, reserved)

    def make_room(self, frame_bytes: int) -> None:
        """The next frame is incomplete and has `frame_bytes` bytes. Grow the buffer for it, or wait for memory."""
        more = self.incoming.make_room(frame_bytes)
        if not more or self.is_starved:
            return
        cost = self._budget.cost(frame_bytes - FIRST_BUFFER_BYTES)
        if cost > self.reserved and not self._budget.reserve(self, cost - self.reserved, cost):
            self.is_starved = True
            return
        self.reserved = max(self.reserved, cost)
        self.incoming.resize(self.incoming.capacity + more)

    def grow_now(self) -> None:
        """Grow without a reservation, because the loop may read once more after reading was paused."""
        self.incoming.resize(self.incoming.capacity + FIRST_BUFFER_BYTES)
        self.reserved += FIRST_BUFFER_BYTES
        self._budget.charge(self, FIRST_BUFFER_BYTES)

    def on_reserved(self, reserved_bytes: int) -> None:
        self.reserved += reserved_bytes
        self.is_starved = False
        self._on_memory()

    def offer_spare_memory(self) -> None:
        """All frames that have arrived are served. Let other connections have what the next frame does not need."""
        if self.reserved > self._budget.cost(self._needed_bytes() - FIRST_BUFFER_BYTES):
            self._budget.allow_shrinking(self)
        else:
            self._budget.forbid_shrinking(self)

    def shrink(self) -> None:
        needed = self._needed_bytes()
        less = self.reserved - self._budget.cost(needed - FIRST_BUFFER_BYTES)
        if less > 0 and not self.is_starved:
            self.reserved -= less
            self.incoming.shrink(needed)
            self._budget.release(self, less)

    def _needed_bytes(self) -> int:
        """Bytes of the buffer that are in use now or will be when the next frame is complete."""
        length = self.incoming.next_length() or 0
        frame_bytes = 4 + length if FRAME_BYTES_MIN <= length <= self.frame_limit else 4
        return max(FIRST_BUFFER_BYTES, len(self.incoming), frame_bytes)
