"""Machine: too many dead letters are a bad deploy, not bad letters: then nothing more is declared dead for a while."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0
LEAST_DEAD = 10
"""So many may die in a window, whatever share of all they are."""
RATIO = 0.2


class Circuit:
    """Counts what lived and died in the last minute. Open: records at fault wait, as if the fault were passing."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int, int]] = deque()

    def note(self, now: float, *, good: int = 0, dead: int = 0) -> None:
        self._counts.append((now, good, dead))
        self._forget(now)

    def is_open(self, now: float) -> bool:
        self._forget(now)
        dead = sum(count for _, _, count in self._counts)
        good = sum(count for _, count, _ in self._counts)
        return dead >= LEAST_DEAD and dead > RATIO * (good + dead)

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] <= now - WINDOW_S:
            self._counts.popleft()
