"""The numbers behind the charts of the statistics page."""

from __future__ import annotations

import math

from analytics.measures.timing import BUCKETS_PER_DOUBLING, middle_ms
from analytics.report import figures


def bucket_of(ms: int) -> int:
    return math.floor(math.log2(ms + 1) * BUCKETS_PER_DOUBLING)


def test_a_percentile_from_buckets_is_near_the_true_one() -> None:
    buckets: dict[int, int] = {}
    for ms in range(1, 10_001):
        buckets[bucket_of(ms)] = buckets.get(bucket_of(ms), 0) + 1
    for share in (0.5, 0.95, 0.99):
        found = figures.percentile(buckets, share, 10_000)
        assert abs(found - share * 10_000) / (share * 10_000) < 0.05


def test_a_percentile_never_exceeds_the_observed_maximum() -> None:
    assert figures.percentile({bucket_of(1_000): 1}, 0.99, 1_000) <= 1_000


def test_the_middle_of_a_bucket_lies_in_it() -> None:
    for number in range(16, 200):
        assert bucket_of(round(middle_ms(number))) in (number - 1, number, number + 1)


def flow(*rows: tuple[int, str, int]) -> list[dict[str, object]]:
    return [{"sale_id": 1, "at_ms": at_ms, "kind": kind, "events": events} for at_ms, kind, events in rows]


def test_the_backlog_is_what_arrived_and_is_not_decided() -> None:
    rows = flow((0, "arrived", 10), (0, "RESERVED", 2), (1000, "SOLD_OUT", 5), (2000, "SOLD_OUT", 3))
    assert [point.backlog for point in figures.flow_steps(rows, 1000)] == [0, 8, 3, 0, 0]


def test_in_idle_steps_the_rate_is_zero_and_the_backlog_stays() -> None:
    points = figures.flow_steps(flow((0, "arrived", 10), (9000, "RESERVED", 4)), 1000)
    assert [(point.at_ms, point.arrived, point.backlog) for point in points] == [
        (-1000, 0, 0),
        (0, 10, 10),
        (1000, 0, 10),
        (8000, 0, 10),
        (9000, 0, 6),
        (10000, 0, 6),
    ]


def test_released_units_are_no_longer_reserved() -> None:
    rows = [
        {"sale_id": 1, "sku": "phone", "at_ms": 0, "reserved": 3, "released": 0, "sold": 0},
        {"sale_id": 1, "sku": "phone", "at_ms": 1000, "reserved": 0, "released": 1, "sold": 2},
    ]
    assert [(each.reserved, each.paid) for each in figures.sell_through(rows)] == [(3, 0), (2, 2)]


def arrivals(*rows: tuple[int, int, int], sale: int = 1) -> list[dict[str, int]]:
    return [{"sale_id": sale, "came_ms": at, "granted": granted, "refused": refused} for at, granted, refused in rows]


def test_served_in_the_order_of_arrival_has_no_inversions() -> None:
    fair = figures.fairness(arrivals((0, 3, 0), (100, 2, 1), (200, 0, 9)))
    assert (fair.inversions, fair.regret_ms) == (0.0, 0)


def test_a_late_winner_over_an_early_loser_is_an_inversion() -> None:
    fair = figures.fairness(arrivals((0, 0, 1), (300, 1, 0)))
    assert (fair.inversions, fair.regret_ms) == (1.0, 300)


def test_only_requests_of_the_same_sale_are_compared() -> None:
    """Requests of different sales are not compared with each other."""
    fair = figures.fairness(arrivals((0, 0, 1), (300, 1, 0)) + arrivals((0, 2, 0), (100, 0, 2), sale=2))
    assert fair.inversions == 1 / 5


def test_arrivals_of_all_sales_are_counted_from_the_first_of_their_own() -> None:
    rows = arrivals((1_000, 3, 0), (1_900, 1, 4)) + arrivals((9_050, 2, 0), (9_950, 0, 1), sale=2)
    assert figures.arrivals(rows, 500) == [(0, 5, 0), (500, 1, 5)]
