"""Machine: a breaker: after a failure nobody waits for what will not come; then one tries, for all."""

from __future__ import annotations


class Breaker:
    def __init__(self, rest_s: float, try_s: float) -> None:
        self._rest_s, self._try_s = rest_s, try_s
        self._open_until: float | None = None

    def admits(self, now: float) -> bool:
        """Closed: everybody. Open: nobody, and after a rest one, who has so long to find out."""
        if self._open_until is None:
            return True
        if now < self._open_until:
            return False
        self._open_until = now + self._try_s
        return True

    def trip(self, now: float) -> None:
        self._open_until = now + self._rest_s

    def close(self) -> None:
        self._open_until = None
