"""The peak as numbers: totals become rates, what waits is the backlog; faults become bands."""

from __future__ import annotations

from seckill.console.marks import Marks
from seckill.console.peak import LAST_MS, Peak, Point


def row(name: str, state: str = "up", restarts: int = 0) -> dict[str, object]:
    return {"name": name, "state": state, "restarts": restarts}


def test_rates_are_of_the_last_second() -> None:
    peak = Peak()
    for number in range(9):
        peak.add(Point(1000 + 250 * number, 100 * number, 50 * number, 25 * number))
    last = peak.since(0)[-1]
    assert (last.offered, last.acknowledged, last.decided) == (400, 200, 100)
    assert last.backlog == 200


def test_a_gateway_that_began_anew_offers_nothing_negative() -> None:
    peak = Peak()
    peak.add(Point(1000, 5000, 10, 10))
    peak.add(Point(1250, 3, 12, 10))
    assert peak.since(0)[-1].offered == 0


def test_whoever_has_seen_some_gets_the_newer_ones_and_nobody_gets_the_old() -> None:
    peak = Peak()
    for at_ms in range(0, LAST_MS + 10_000, 1000):
        peak.add(Point(at_ms, 0, 0, 0))
    assert peak.since(0)[0].at_ms == 9000
    assert [each.at_ms for each in peak.since(LAST_MS + 7000)] == [LAST_MS + 8000, LAST_MS + 9000]


def test_a_process_that_is_down_is_a_band_until_it_is_up() -> None:
    marks = Marks()
    marks.see(1000, [row("inventory.1")])
    marks.see(2000, [row("inventory.1", "died")])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed()] == [(2000, None)]
    marks.see(5000, [row("inventory.1", "up", 1)])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed()] == [(2000, 5000)]


def test_a_death_between_two_looks_is_shown_all_the_same() -> None:
    marks = Marks()
    marks.see(1000, [row("orders.1")])
    marks.see(2000, [row("orders.1", "up", 1)])
    [mark] = marks.listed()
    assert (mark.what, mark.until_ms) == ("orders.1", 2000)


def test_a_process_that_was_scaled_away_is_no_band_for_ever() -> None:
    marks = Marks()
    marks.see(1000, [row("orders.2", "down")])
    marks.see(2000, [])
    assert [mark.until_ms for mark in marks.listed()] == [2000]


def test_words_and_the_end_of_the_stock_are_lines() -> None:
    marks = Marks()
    marks.spoken([(500, "sale pause sale 1")], [700])
    marks.spoken([(500, "sale pause sale 1")], [700])
    assert [(mark.at_ms, mark.kind) for mark in marks.listed()] == [(500, "word"), (700, "sold_out")]


def test_what_is_long_ago_is_forgotten() -> None:
    marks = Marks()
    marks.spoken([(500, "sale pause sale 1")], [])
    marks.see(LAST_MS + 501, [])
    assert marks.listed() == []
