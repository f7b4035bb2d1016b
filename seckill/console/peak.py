"""Machine: the peak and how it is absorbed: totals, moment after moment → rates, and the backlog between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

LAST_MS = 5 * 60 * 1000
WINDOW_MS = 1000
MOST = 2000


class Point(NamedTuple):
    """Totals since ever. `offered` begins anew with each process."""

    at_ms: int
    offered: int
    acknowledged: int
    decided: int


class Rate(NamedTuple):
    """Per second, over the last second; `backlog` is what was acknowledged and is not decided."""

    at_ms: int
    offered: float
    acknowledged: float
    decided: float
    backlog: int


@dataclass(slots=True)
class Peak:
    _points: deque[Point] = field(default_factory=lambda: deque(maxlen=MOST))
    _rates: deque[Rate] = field(default_factory=lambda: deque(maxlen=MOST))

    def add(self, point: Point) -> None:
        self._points.append(point)
        before = next((each for each in self._points if each.at_ms >= point.at_ms - WINDOW_MS), point)
        seconds = (point.at_ms - before.at_ms) / 1000
        if seconds <= 0:
            return
        offered, acknowledged, decided = (round(max(0, point[at] - before[at]) / seconds, 1) for at in (1, 2, 3))
        backlog = max(0, point.acknowledged - point.decided)
        self._rates.append(Rate(point.at_ms, offered, acknowledged, decided, backlog))
        while self._rates[0].at_ms < point.at_ms - LAST_MS:
            self._rates.popleft()
        while self._points[0].at_ms < point.at_ms - 2 * WINDOW_MS:
            self._points.popleft()

    def since(self, at_ms: int) -> list[Rate]:
        return [each for each in list(self._rates) if each.at_ms > at_ms]
