"""Store: the receiving half of a connection: its buffer, and the share it has reserved of the memory for requests."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.server.budgets import ReceiveBudget
from mqcore.server.incoming import FIRST_BUFFER, Incoming

LEAST_FRAME = 8


class Receiving:
    """`fed` is called when there is memory for a request that had to wait for it."""

    def __init__(self, budget: ReceiveBudget, frame_limit: int, fed: Callable[[], None]) -> None:
        self.address = ""
        self.incoming = Incoming()
        self.frame_limit = frame_limit
        self.frame_began_at: float | None = None  # the next frame has arrived in part
        self.starved = False
        self._budget = budget
        self.reserved = 0  # bytes in the receive budget
        self._fed = fed

    def leave(self) -> None:
        """The connection is gone."""
        reserved, self.reserved = self.reserved, 0
        self._budget.leave(self, reserved)

    def make_room(self, whole: int) -> None:
        """The next frame has `whole` bytes and is not complete: let the buffer take more, or wait for memory."""
        more = self.incoming.make_room(whole)
        if not more or self.starved:
            return
        cost = self._budget.cost(whole - FIRST_BUFFER)
        if cost > self.reserved and not self._budget.take(self, cost - self.reserved, cost):
            self.starved = True
            return
        self.reserved = max(self.reserved, cost)
        self.incoming.resize(self.incoming.capacity + more)

    def force_room(self) -> None:
        """Take more at once, for a loop that reads although it was told to pause."""
        self.incoming.resize(self.incoming.capacity + FIRST_BUFFER)
        self.reserved += FIRST_BUFFER
        self._budget.force(self, FIRST_BUFFER)

    def fed(self, cost: int) -> None:
        self.reserved += cost
        self.starved = False
        self._fed()

    def offer_spare(self) -> None:
        """All frames that have arrived are served: others may have the memory that the next one does not need."""
        if self.reserved > self._budget.cost(self._needed() - FIRST_BUFFER):
            self._budget.offer(self)
        else:
            self._budget.need(self)

    def shrink(self) -> None:
        needed = self._needed()
        less = self.reserved - self._budget.cost(needed - FIRST_BUFFER)
        if less > 0 and not self.starved:
            self.reserved -= less
            self.incoming.shrink(needed)
            self._budget.give_back(self, less)

    def _needed(self) -> int:
        """Bytes of the buffer that are in use, or will be when the next frame is complete."""
        length = self.incoming.next_length() or 0
        whole = 4 + length if LEAST_FRAME <= length <= self.frame_limit else 4
        return max(FIRST_BUFFER, len(self.incoming), whole)
