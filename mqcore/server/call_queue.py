"""Store: the calls of one connection whose answers are not sent yet, in the order of the requests.

Own rule: `waiting_bytes` is the sum of `held_bytes` of the queued calls, and the limits count the same bytes for all
connections together.
"""

from __future__ import annotations

from collections import deque

from mqcore.server.call import ServerCall
from mqcore.server.connection_limits import ConnectionLimits
from mqcore.server.sending import Sending

WAITING_BYTES_MAX = 1024 * 1024
QUEUED_PIECES_MAX = 64


class CallQueue:
    def __init__(self, limits: ConnectionLimits) -> None:
        self.waiting_bytes = 0
        self._limits = limits
        self._calls_max = limits.config.queued_max_requests
        self.waiting: deque[ServerCall] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def count_if_waiting(self, call: ServerCall, request_bytes: int) -> bool:
        """Count the memory of a call that waits for its answer or for those before it. Returns whether reading may have
        to pause, because the call waits or the queue is full."""
        calls = self.waiting
        if not calls or (call.pieces is not None and calls[0].pieces is not None):
            return len(calls) >= self._calls_max
        call.held_bytes = call.memory_bytes(request_bytes)
        self._count(call.held_bytes)
        return True

    def move_answers(self, sending: Sending) -> None:
        """Hand over the answers that are next in order, as many as `sending` should queue."""
        calls = self.waiting
        while calls and calls[0].pieces is not None and len(sending) < QUEUED_PIECES_MAX:
            call = calls.popleft()
            sending.add(call.pieces or ())
            if call.held_bytes:
                self._count(-call.held_bytes)

    @property
    def has_too_much_waiting(self) -> bool:
        """One request may always wait. More of them may wait only while they are few and small."""
        is_large = self.waiting_bytes > WAITING_BYTES_MAX or self._limits.is_crowded
        return len(self.waiting) >= self._calls_max or (is_large and bool(self.waiting))

    def drop_all(self) -> None:
        """The client has disconnected."""
        self._count(-self.waiting_bytes)
        calls, self.waiting = self.waiting, deque()
        for call in calls:
            if not call.is_answered:
                call.drop()

    def _count(self, more_bytes: int) -> None:
        self.waiting_bytes += more_bytes
        self._limits.waiting_bytes += more_bytes
