"""Machine: many dead letters at once point to a bad deploy, not to bad records, so the circuit stops more of them.

This circuit guards data. The breakers of `seckill.resilience.circuit_breaker` guard calls to other servers.
"""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0
DEAD_LETTERS_MIN = 10
"""Fewer dead letters than this never open the circuit, whatever their share."""
DEAD_LETTER_SHARE_MAX = 0.2


class DeadLetterCircuit:
    """Counts processed and dead records of the last minute. While it is open, failing records are retried instead."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int, int]] = deque()

    def note(self, now: float, *, good: int = 0, dead: int = 0) -> None:
        self._counts.append((now, good, dead))
        self._forget(now)

    def is_open(self, now: float) -> bool:
        self._forget(now)
        dead = sum(count for _, _, count in self._counts)
        good = sum(count for _, count, _ in self._counts)
        return dead >= DEAD_LETTERS_MIN and dead > DEAD_LETTER_SHARE_MAX * (good + dead)

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] <= now - WINDOW_SECONDS:
            self._counts.popleft()
