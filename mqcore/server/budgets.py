"""Store: the memory that all connections share, for requests on their way in and for responses on their way out.

Own rules of the receive budget:
* Each connection keeps its first buffer. A request that does not fit in there reserves all its bytes before its
  buffer grows, so every request that has begun to arrive can be completed.
* Requests above `SMALL_REQUEST_BYTES` together take three quarters of the budget at most; the rest is for small ones.
  One request larger than that counts as three quarters: it is received alone.
* An address holds half of the budget at most while others are connected.
* A buffer that is larger than its connection needs now is taken back as soon as another connection needs the memory.

Own rule of the send budget: above half of it, a connection has one small piece in transit at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

SMALL_REQUEST_BYTES = 1024 * 1024


class Receiver(Protocol):
    """A connection, as the receive budget sees it."""

    @property
    def address(self) -> str: ...

    def fed(self, cost: int) -> None:
        """`cost` bytes that it waited for are reserved for it now."""
        ...

    def shrink(self) -> None:
        """Give back what it does not need at the moment."""
        ...


class ReceiveBudget:
    """`connected` counts the connections of each address."""

    def __init__(self, limit_bytes: int, connected: Mapping[str, int]) -> None:
        self.limit = limit_bytes
        self.held = 0
        self._for_large = limit_bytes - limit_bytes // 4
        self._connected = connected
        self._held_by: Counter[str] = Counter()
        self._starving: dict[Receiver, tuple[int, int]] = {}
        self._spare: dict[Receiver, None] = {}

    @property
    def starving(self) -> int:
        return len(self._starving)

    def cost(self, beyond_first: int) -> int:
        """What a request counts for that needs so many bytes on top of its connection's first buffer."""
        return min(beyond_first, self._for_large)

    def take(self, receiver: Receiver, more: int, cost: int) -> bool:
        """Reserve `more` bytes, which makes `cost` of the connection's request; if there are none, it waits for them
        and is `fed` later."""
        if not self._fits(receiver, more, cost):
            for other in list(self._spare):
                other.shrink()
                if self._fits(receiver, more, cost):
                    break
            else:
                self._starving[receiver] = more, cost
                return False
        self._hold(receiver, more)
        return True

    def force(self, receiver: Receiver, more: int) -> None:
        """Count bytes that are taken already."""
        self._hold(receiver, more)

    def offer(self, receiver: Receiver) -> None:
        """The connection holds more than it needs: it keeps that for its next large request, unless others wait."""
        if self._starving:
            receiver.shrink()
        else:
            self._spare.setdefault(receiver)

    def need(self, receiver: Receiver) -> None:
        """The connection uses what it has offered."""
        self._spare.pop(receiver, None)

    def give_back(self, receiver: Receiver, less: int) -> None:
        self._spare.pop(receiver, None)
        self.held -= less
        self._held_by[receiver.address] -= less
        if self._held_by[receiver.address] <= 0:
            del self._held_by[receiver.address]
        for waiting, (more, cost) in list(self._starving.items()):
            if self.held >= self.limit:
                return
            if waiting in self._starving and self._fits(waiting, more, cost):
                del self._starving[waiting]
                self._hold(waiting, more)
                waiting.fed(more)

    def leave(self, receiver: Receiver, held: int) -> None:
        """The connection is gone."""
        self._starving.pop(receiver, None)
        self.give_back(receiver, held)

    def _hold(self, receiver: Receiver, more: int) -> None:
        self.held += more
        self._held_by[receiver.address] += more

    def _fits(self, receiver: Receiver, more: int, cost: int) -> bool:
        small = cost <= SMALL_REQUEST_BYTES
        limit = self.limit if small or cost == self._for_large else self._for_large
        if self.held + more > limit:
            return False
        of_address = self._held_by[receiver.address]
        return not of_address or len(self._connected) < 2 or of_address + more <= self.limit // 2


class SendBudget:
    """Counts the bytes of responses that are in memory: not yet written, or written and not taken by the client."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self.held = 0

    def has_room(self, piece_bytes: int) -> bool:
        """Whether a large piece may be read from a log; a small one always may."""
        return self.held + piece_bytes <= self.limit // 2

    @property
    def is_exceeded(self) -> bool:
        return self.held > self.limit
