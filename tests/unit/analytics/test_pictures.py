"""The data behind the marks of the charts; a rush is not squeezed by events that come hours later."""

from __future__ import annotations

from typing import Any

import pytest

from analytics.measures.timing import ARRIVED
from analytics.report import activity, pictures
from seckill.report.html.charts import vega_spec

SECOND = 1_000
LATER = 2 * 3_600 * SECOND
RUSH = [
    {"sale_id": 1, "at_ms": at * SECOND, "kind": kind, "events": events}
    for at in range(20)
    for kind, events in ((ARRIVED, 500 - 20 * at), ("RESERVED", 250))
]
SOLD = [
    {"sale_id": 1, "sku": "phone", "at_ms": at * SECOND, "reserved": 10, "released": 0, "sold": at // 2}
    for at in range(20)
]
EXPIRED = {"sale_id": 1, "sku": "phone", "at_ms": LATER, "reserved": 0, "released": 5, "sold": 0}
ONE_BIN = [{"sale_id": 1, "at_ms": 0, "kind": kind, "events": 3} for kind in (ARRIVED, "RESERVED")]


def charts(made: Any) -> list[dict[str, Any]]:
    """The charts next to each other, each with its own rows."""
    whole = vega_spec(made)
    return [{"data": whole.get("data")} | chart for chart in whole["hconcat"]]  # shared data is at the top


def drawn(chart: dict[str, Any], column: str, **of: str) -> list[tuple[int, float]]:
    rows = [row for row in chart["data"]["values"] if all(row[name] == value for name, value in of.items())]
    return sorted((row["at"], row[column]) for row in rows)


def test_the_peak_fills_the_chart_even_if_a_late_decision_follows_hours_later() -> None:
    late = {"sale_id": 1, "at_ms": LATER, "kind": "TOO_LATE", "events": 1}
    rush, after = charts(pictures.peak_chart([*RUSH, late], SECOND))
    assert rush["width"] > 4 * after["width"]
    assert [rate for _, rate in drawn(rush, "rate", what="arrived")] == [0.0, *range(500, 100, -20), 0.0]
    assert drawn(after, "rate", what="decided") == [(LATER - SECOND, 0.0), (LATER, 1.0), (LATER + SECOND, 0.0)]
    assert after["title"] == "⋯ 1 h 59 min later"
    assert rush["encoding"]["x"]["scale"]["domain"] == [-SECOND, 20 * SECOND]


def test_units_that_come_back_hours_later_do_not_flatten_the_curve_of_the_sale() -> None:
    rush, after = charts(pictures.sell_through_chart([*SOLD, EXPIRED], SECOND))
    reserved = [units for _, units in drawn(rush, "units", what="reserved")]
    assert reserved[:2] == [0, 10] and reserved[-1] == 200 and reserved == sorted(reserved)
    assert drawn(after, "units", what="reserved") == [(LATER - SECOND, 200), (LATER, 195), (LATER + SECOND, 195)]
    assert {units for _, units in drawn(after, "units", what="paid")} == {90}, "the level is carried over the pause"


def test_a_single_bin_has_a_width() -> None:
    [chart] = charts(pictures.peak_chart(ONE_BIN, SECOND))
    assert drawn(chart, "rate", what="arrived") == [(-SECOND, 0.0), (0, 3.0), (SECOND, 0.0)]
    [waiting] = charts(pictures.backlog_chart([ONE_BIN[0]], SECOND))
    assert drawn(waiting, "backlog") == [(-SECOND, 0), (0, 3), (SECOND, 3)]


def test_every_chart_can_be_drawn_with_one_bin_and_with_a_long_pause() -> None:
    money = [{"at_ms": at, "amount": 900, "refunded": 0} for at in (0, LATER)]
    for picture in (
        pictures.peak(ONE_BIN, SECOND), pictures.backlog(ONE_BIN, SECOND), pictures.decisions(ONE_BIN[1:], SECOND),
        pictures.decisions([*RUSH[1::2], {**ONE_BIN[1], "at_ms": LATER}], SECOND),
        pictures.sell_through([*SOLD, EXPIRED], SECOND), pictures.revenue(money[:1]), pictures.revenue(money),
    ):  # fmt: skip
        assert picture.startswith("<svg") and "NaN" not in picture


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([], []),
        ([5], [(4, 6)]),
        ([0, 60_000], [(-1, 60_001)]),
        ([0, 60_001], [(-1, 1), (60_000, 60_002)]),
    ],
)
def test_activity_is_split_at_pauses_of_more_than_a_minute(times: list[int], found: list[tuple[int, int]]) -> None:
    assert activity.spans(times, 1) == found


def test_many_pauses_are_split_at_the_longest_ones() -> None:
    times = [number * 100_000 + (500_000 if number >= 7 else 0) for number in range(20)]
    split = activity.spans(times, 1)
    assert len(split) == activity.SPANS_MAX
    assert (699_999 + 500_000) in {span.from_ms for span in split}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (90, "1 min 30 s"), (7_140, "1 h 59 min"), (7_200, "2 h"), (93_600, "1 d 2 h")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert activity.duration_text(seconds * 1_000) == text
