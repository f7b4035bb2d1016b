"""Machine: a circuit breaker for calls to another server.

Closed: it allows every call. After `failures_max` failures in a row it opens, and allows none for a while. Half-open:
it allows one call, the probe. If the probe succeeds the breaker closes; if it fails or never reports, the breaker stays
open for another while.

The project has three circuits:
* this breaker lives in one process and guards calls to Redis, Celery's queue, the payment provider and the broker;
* `notifications.channel_breaker` is a database row, because all workers share one view of a channel's gateway;
* `messaging.dead_letter_circuit` guards data, not a server: it stops a bad deploy from burying every record.
"""

from __future__ import annotations

import threading
from enum import IntEnum


class BreakerState(IntEnum):
    """Numbers, because metrics show them."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Permit(IntEnum):
    """May this call be made? `PROBE` means yes, and no other call until its result is known.

    A caller that does not make its probe call must return the permit with `return_probe`; otherwise the breaker admits
    no call until the probe's time is over.
    """

    NO = 0
    YES = 1
    PROBE = 2


class CircuitBreaker:
    """`now` is monotonic seconds. Thread-safe. A probe has `probe_seconds` (default: `open_seconds`) to report."""

    def __init__(self, failures_max: int, open_seconds: float, probe_seconds: float | None = None) -> None:
        self._failures_max, self._open_seconds = failures_max, open_seconds
        self._probe_seconds = open_seconds if probe_seconds is None else probe_seconds
        self._failures = 0
        self._open_until: float | None = None
        self._probe_until: float | None = None  # the value of `_open_until` that the latest probe has set
        self._lock = threading.Lock()

    def allows_call(self, now: float) -> bool:
        """In half-open, true for one caller only, until its time is over."""
        return self.permit(now) is not Permit.NO

    def permit(self, now: float) -> Permit:
        """As `allows_call`, and tells whether the call is the probe."""
        open_until = self._open_until
        if open_until is None:  # without the lock, because every purchase comes through here
            return Permit.YES
        with self._lock:
            if self._open_until is None:
                return Permit.YES
            if now < self._open_until:
                return Permit.NO
            self._open_until = self._probe_until = now + self._probe_seconds
            return Permit.PROBE

    def return_probe(self, now: float) -> None:
        """The probe call was not made, so the next caller may probe at once. Does nothing if a result is known."""
        with self._lock:
            if self._open_until is not None and self._open_until == self._probe_until:
                self._open_until, self._probe_until = now, None

    def record_success(self) -> None:
        if not self._failures and self._open_until is None:
            return
        with self._lock:
            self._failures, self._open_until = 0, None

    def record_failure(self, now: float) -> None:
        with self._lock:
            self._failures += 1
            self._probe_until = None
            if self._failures >= self._failures_max:
                self._open_until = now + self._open_seconds

    def state(self, now: float) -> BreakerState:
        with self._lock:
            if self._open_until is None:
                return BreakerState.CLOSED
            return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN
