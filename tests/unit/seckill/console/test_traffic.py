"""The traffic chart's data: counters become rates, the difference is the backlog."""

from __future__ import annotations

from seckill.console.traffic import KEPT_MS, TrafficHistory
from seckill.report.traffic import TrafficTotals


def test_rates_cover_the_last_second() -> None:
    traffic = TrafficHistory()
    for number in range(9):
        traffic.add(TrafficTotals(1000 + 250 * number, 100 * number, 50 * number, 25 * number))
    last = traffic.since(0)[-1]
    assert (last.offered, last.acknowledged, last.decided) == (400, 200, 100)
    assert last.backlog == 200


def test_a_restarted_gateway_does_not_show_a_negative_rate() -> None:
    traffic = TrafficHistory()
    traffic.add(TrafficTotals(1000, 5000, 10, 10))
    traffic.add(TrafficTotals(1250, 3, 12, 10))
    assert traffic.since(0)[-1].offered == 0


def test_a_reader_gets_only_newer_points_and_none_older_than_five_minutes() -> None:
    traffic = TrafficHistory()
    for at_ms in range(0, KEPT_MS + 10_000, 1000):
        traffic.add(TrafficTotals(at_ms, 0, 0, 0))
    assert traffic.since(0)[0].at_ms == 9000
    assert [each.at_ms for each in traffic.since(KEPT_MS + 7000)] == [KEPT_MS + 8000, KEPT_MS + 9000]
