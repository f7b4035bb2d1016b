"""Machine: a circuit breaker. Closed: everybody tries. Open, after so many failures in a row: nobody does, for a while.
Half-open: one tries for all; his success closes it, his failure (or silence) opens it for another while.
"""

from __future__ import annotations

import threading
from enum import IntEnum


class State(IntEnum):
    """As numbers, for metrics."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Permit(IntEnum):
    """May a call be tried? `PROBE`: yes, and it is the only one for now. Whoever has a probe and does not try gives it
    back (`Breaker.give_back`); else everything stays shut until its time is over."""

    NO = 0
    YES = 1
    PROBE = 2


class Breaker:
    """`now` is any clock that does not go back, in seconds. Safe among threads. In half-open the one who tries has
    `try_s` (else `open_s`) to find out."""

    def __init__(self, most_failures: int, open_s: float, try_s: float | None = None) -> None:
        self._most_failures, self._open_s = most_failures, open_s
        self._try_s = open_s if try_s is None else try_s
        self._failures = 0
        self._open_until: float | None = None
        self._probe_until: float | None = None  # `_open_until` as the latest probe has set it
        self._lock = threading.Lock()

    def may_try(self, now: float) -> bool:
        """True in half-open for one caller only: the next one may when he has had his time."""
        return self.permit(now) is not Permit.NO

    def permit(self, now: float) -> Permit:
        """As `may_try`, and says whether this is the probe of half-open."""
        open_until = self._open_until
        if open_until is None:  # without the lock: it is asked for every purchase
            return Permit.YES
        with self._lock:
            if self._open_until is None:
                return Permit.YES
            if now < self._open_until:
                return Permit.NO
            self._open_until = self._probe_until = now + self._try_s
            return Permit.PROBE

    def give_back(self, now: float) -> None:
        """The probe was not tried: the next caller may, at once. Nothing if its result is known by now."""
        with self._lock:
            if self._open_until is not None and self._open_until == self._probe_until:
                self._open_until, self._probe_until = now, None

    def succeeded(self) -> None:
        if not self._failures and self._open_until is None:
            return
        with self._lock:
            self._failures, self._open_until = 0, None

    def failed(self, now: float) -> None:
        with self._lock:
            self._failures += 1
            self._probe_until = None
            if self._failures >= self._most_failures:
                self._open_until = now + self._open_s

    def state(self, now: float) -> State:
        with self._lock:
            if self._open_until is None:
                return State.CLOSED
            return State.OPEN if now < self._open_until else State.HALF_OPEN
