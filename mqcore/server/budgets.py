"""Store: the memory that all connections share, for incoming requests and for outgoing responses.

Own rules of the receive budget:
* Each connection keeps its first buffer. A larger request reserves all its bytes before the buffer grows, so every
  request that has begun to arrive can be completed.
* Requests above `SMALL_REQUEST_BYTES_MAX` may take three quarters of the budget together, which leaves the rest to
  small ones. A request larger than that counts as three quarters, so it is received alone.
* While several addresses are connected, each may take half of the budget.
* A connection keeps a buffer that it no longer needs until another connection is short of memory.

Own rule of the send budget: above half of it, a connection has only one small piece of a log in transit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

SMALL_REQUEST_BYTES_MAX = 1024 * 1024


class Receiver(Protocol):
    """A connection, as the receive budget sees it."""

    @property
    def address(self) -> str: ...

    def on_reserved(self, reserved_bytes: int) -> None:
        """The budget has reserved the bytes that this connection was waiting for."""
        ...

    def shrink(self) -> None:
        """Release the memory that the connection does not need now."""
        ...


class ReceiveBudget:
    """`connected` counts the connections of each address."""

    def __init__(self, limit_bytes: int, connected: Mapping[str, int]) -> None:
        self.limit = limit_bytes
        self.held = 0
        self._large_limit = limit_bytes - limit_bytes // 4
        self._connected = connected
        self._held_by_address: Counter[str] = Counter()
        self._waiting: dict[Receiver, tuple[int, int]] = {}  # → (bytes to reserve, cost of the whole request)
        self._shrinkable: dict[Receiver, None] = {}

    @property
    def waiting(self) -> int:
        """Connections that wait for memory."""
        return len(self._waiting)

    def cost(self, bytes_beyond_first_buffer: int) -> int:
        """What a request counts for, given the bytes it needs beyond its connection's first buffer."""
        return min(bytes_beyond_first_buffer, self._large_limit)

    def reserve(self, receiver: Receiver, more: int, cost: int) -> bool:
        """Reserve `more` bytes for a request that counts for `cost` in total. If they are not available, the receiver
        waits and `on_reserved` is called later."""
        if not self._fits(receiver, more, cost):
            for other in list(self._shrinkable):
                other.shrink()
                if self._fits(receiver, more, cost):
                    break
            else:
                self._waiting[receiver] = more, cost
                return False
        self._add(receiver, more)
        return True

    def charge(self, receiver: Receiver, more: int) -> None:
        """Count bytes that are already allocated, whether or not they fit."""
        self._add(receiver, more)

    def allow_shrinking(self, receiver: Receiver) -> None:
        """The connection holds more than it needs. It keeps that unless another one waits."""
        if self._waiting:
            receiver.shrink()
        else:
            self._shrinkable.setdefault(receiver)

    def forbid_shrinking(self, receiver: Receiver) -> None:
        """The connection needs all it holds."""
        self._shrinkable.pop(receiver, None)

    def release(self, receiver: Receiver, less: int) -> None:
        self._shrinkable.pop(receiver, None)
        self.held -= less
        self._held_by_address[receiver.address] -= less
        if self._held_by_address[receiver.address] <= 0:
            del self._held_by_address[receiver.address]
        for waiting, (more, cost) in list(self._waiting.items()):
            if self.held >= self.limit:
                return
            if waiting in self._waiting and self._fits(waiting, more, cost):
                del self._waiting[waiting]
                self._add(waiting, more)
                waiting.on_reserved(more)

    def remove(self, receiver: Receiver, held: int) -> None:
        """The connection is closed."""
        self._waiting.pop(receiver, None)
        self.release(receiver, held)

    def _add(self, receiver: Receiver, more: int) -> None:
        self.held += more
        self._held_by_address[receiver.address] += more

    def _fits(self, receiver: Receiver, more: int, cost: int) -> bool:
        is_small = cost <= SMALL_REQUEST_BYTES_MAX
        limit = self.limit if is_small or cost == self._large_limit else self._large_limit
        if self.held + more > limit:
            return False
        of_address = self._held_by_address[receiver.address]
        return not of_address or len(self._connected) < 2 or of_address + more <= self.limit // 2


class SendBudget:
    """Counts the bytes of responses in memory: not yet written, or written but not yet taken by the kernel."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self.held = 0

    def has_room(self, piece_bytes: int) -> bool:
        """True if a large piece may be read from a log. A small piece is always allowed."""
        return self.held + piece_bytes <= self.limit // 2

    @property
    def is_exceeded(self) -> bool:
        return self.held > self.limit
