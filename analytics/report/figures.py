"""Plain functions: from rows of the tables to what a picture shows: percentiles, running sums, backlog, fairness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from analytics.measures.timing import ARRIVED, middle_ms
from analytics.schemas import DECISIONS, PAID, PLACED

Rows = Sequence[dict[str, Any]]
STAGES = ("decision", "order", "payment")


class Latency(NamedTuple):
    stage: str
    events: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: int


def latencies(rows: Rows) -> list[Latency]:
    """Of all sales together, by stage."""
    found = []
    for stage in STAGES:
        buckets: dict[int, int] = defaultdict(int)
        mine = [row for row in rows if row["stage"] == stage]
        for row in mine:
            buckets[row["bucket"]] += row["events"]
        if buckets:
            most_ms = max(row["most_ms"] for row in mine)
            p50, p95, p99 = (percentile(buckets, share, most_ms) for share in (0.5, 0.95, 0.99))
            found.append(Latency(stage, sum(buckets.values()), p50, p95, p99, most_ms))
    return found


def percentile(buckets: dict[int, int], share: float, most_ms: int) -> float:
    """The middle of the bucket in which it lies, and never more than the most that was seen."""
    wanted = share * sum(buckets.values())
    seen = 0
    for number in sorted(buckets):
        seen += buckets[number]
        if seen >= wanted:
            return min(middle_ms(number), float(most_ms))
    raise ValueError("no events")


class Funnel(NamedTuple):
    stage: str
    purchases: int


def funnel(totals: Rows) -> list[Funnel]:
    kinds: dict[str, int] = defaultdict(int)
    for row in totals:
        kinds[row["kind"]] += row["events"]
    decided = sum(kinds[kind] for kind in DECISIONS)
    return [
        Funnel("requested", kinds["PurchaseRequested"]),
        Funnel("decided", decided),
        Funnel("reserved", kinds["RESERVED"]),
        Funnel("ordered", kinds[PLACED]),
        Funnel("paid", kinds[PAID]),
    ]


class Peak(NamedTuple):
    """Per step; `backlog`: arrived and not decided at its end."""

    at_ms: int
    arrived: int
    decided: int
    backlog: int


def peak(flow: Rows, step_ms: int) -> list[Peak]:
    """Each busy step, and the idle ones beside it, so that a curve rises from nothing and falls to it."""
    arrived: dict[int, int] = defaultdict(int)
    decided: dict[int, int] = defaultdict(int)
    for row in flow:
        if row["kind"] == ARRIVED:
            arrived[row["at_ms"]] += row["events"]
        elif row["kind"] in DECISIONS:
            decided[row["at_ms"]] += row["events"]
    busy = set(arrived) | set(decided)
    times = sorted({at + shift for at in busy for shift in (-step_ms, 0, step_ms)})
    open_ = accumulate(arrived[at] - decided[at] for at in times)
    return [Peak(at, arrived[at], decided[at], max(0, count)) for at, count in zip(times, open_, strict=True)]


class Sold(NamedTuple):
    """Units of an article that are taken, and of these paid, at the end of the step."""

    sku: str
    at_ms: int
    taken: int
    paid: int


def sell_through(rows: Rows) -> list[Sold]:
    taken: dict[tuple[int, str], int] = defaultdict(int)
    paid: dict[tuple[int, str], int] = defaultdict(int)
    found = []
    for row in sorted(rows, key=lambda row: row["at_ms"]):
        key = row["sale_id"], row["sku"]
        taken[key] += row["reserved"] - row["released"]
        paid[key] += row["sold"]
        found.append(Sold(f"{row['sku']} (sale {row['sale_id']})", row["at_ms"], taken[key], paid[key]))
    return found


class Fairness(NamedTuple):
    """`inversions`: pairs in which the earlier was refused and a later one granted, of all pairs with one of each;
    those of the same tenth of a second count for neither. `regret_ms`: from the first refused to the last granted."""

    granted: int
    refused: int
    inversions: float
    regret_ms: int


def fairness(rows: Rows) -> Fairness:
    granted, refused = sum(row["granted"] for row in rows), sum(row["refused"] for row in rows)
    inverted = regret_ms = pairs = 0
    for mine in by(rows, "sale_id"):
        before, first_ms = 0, None
        for row in mine:
            inverted += before * row["granted"]
            if row["granted"] and first_ms is not None:
                regret_ms = max(regret_ms, row["came_ms"] - first_ms)
            before += row["refused"]
            first_ms = row["came_ms"] if first_ms is None and row["refused"] else first_ms
        pairs += before * sum(row["granted"] for row in mine)
    return Fairness(granted, refused, inverted / pairs if pairs else 0.0, regret_ms)


class Arrived(NamedTuple):
    """Requests of all sales that came within one step, counted from the first of their sale."""

    after_ms: int
    granted: int
    refused: int


def arrivals(rows: Rows, step_ms: int) -> list[Arrived]:
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for mine in by(rows, "sale_id"):
        first_ms = min(row["came_ms"] for row in mine)
        for row in mine:
            count = counts[(row["came_ms"] - first_ms) // step_ms * step_ms]
            count[0] += row["granted"]
            count[1] += row["refused"]
    return [Arrived(after_ms, *counts[after_ms]) for after_ms in sorted(counts)]


def by(rows: Iterable[dict[str, Any]], column: str) -> list[list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return list(found.values())
