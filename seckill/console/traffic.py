"""Machine: the last five minutes of traffic: counters, moment by moment, become rates per second."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from seckill.report.traffic import TrafficRates, TrafficTotals, traffic_rates

KEPT_MS = 5 * 60 * 1000
WINDOW_MS = 1000
POINTS_MAX = 2000


@dataclass(slots=True)
class TrafficHistory:
    _totals: deque[TrafficTotals] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    _rates: deque[TrafficRates] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))

    def add(self, totals: TrafficTotals) -> None:
        self._totals.append(totals)
        before = next((each for each in self._totals if each.at_ms >= totals.at_ms - WINDOW_MS), totals)
        rates = traffic_rates(before, totals)
        if rates is None:
            return
        offered, acknowledged, decided = (round(value, 1) for value in rates[1:4])
        self._rates.append(rates._replace(offered=offered, acknowledged=acknowledged, decided=decided))
        while self._rates[0].at_ms < totals.at_ms - KEPT_MS:
            self._rates.popleft()
        while self._totals[0].at_ms < totals.at_ms - 2 * WINDOW_MS:
            self._totals.popleft()

    def latest_totals(self) -> TrafficTotals | None:
        return self._totals[-1] if self._totals else None

    def since(self, at_ms: int) -> list[TrafficRates]:
        return [each for each in list(self._rates) if each.at_ms > at_ms]
