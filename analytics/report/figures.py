"""Machine: from rows of the tables to the numbers behind the charts: percentiles, running sums, backlog, fairness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from analytics.measures.timing import ARRIVED, middle_ms
from analytics.schemas import DECISIONS, PAID, PLACED, REQUESTED
from seckill.report.traffic import FunnelStage, funnel, running_backlog

Rows = Sequence[dict[str, Any]]
STAGES = ("decision", "order", "payment")


class StageLatency(NamedTuple):
    stage: str
    events: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: int


def latencies(rows: Rows) -> list[StageLatency]:
    """By stage, over all sales."""
    found = []
    for stage in STAGES:
        buckets: dict[int, int] = defaultdict(int)
        mine = [row for row in rows if row["stage"] == stage]
        for row in mine:
            buckets[row["bucket"]] += row["events"]
        if buckets:
            max_ms = max(row["most_ms"] for row in mine)
            p50, p95, p99 = (percentile(buckets, share, max_ms) for share in (0.5, 0.95, 0.99))
            found.append(StageLatency(stage, sum(buckets.values()), p50, p95, p99, max_ms))
    return found


def percentile(buckets: dict[int, int], share: float, max_ms: int) -> float:
    """The middle of the bucket that contains the percentile, but never more than the observed maximum."""
    wanted = share * sum(buckets.values())
    seen = 0
    for number in sorted(buckets):
        seen += buckets[number]
        if seen >= wanted:
            return min(middle_ms(number), float(max_ms))
    raise ValueError("no events")


def purchase_funnel(totals: Rows) -> list[tuple[FunnelStage, int]]:
    kinds: dict[str, int] = defaultdict(int)
    for row in totals:
        kinds[row["kind"]] += row["events"]
    return funnel(
        {
            FunnelStage.REQUESTED: kinds[REQUESTED],
            FunnelStage.DECIDED: sum(kinds[kind] for kind in DECISIONS),
            FunnelStage.RESERVED: kinds["RESERVED"],
            FunnelStage.ORDERED: kinds[PLACED],
            FunnelStage.PAID: kinds[PAID],
        }
    )


class FlowStep(NamedTuple):
    """Counts in one step; `backlog` is what had arrived and was not decided at its end."""

    at_ms: int
    arrived: int
    decided: int
    backlog: int


def flow_steps(flow: Rows, step_ms: int) -> list[FlowStep]:
    """Every busy step and the idle steps next to it, so that a curve starts and ends at zero."""
    arrived: dict[int, int] = defaultdict(int)
    decided: dict[int, int] = defaultdict(int)
    for row in flow:
        if row["kind"] == ARRIVED:
            arrived[row["at_ms"]] += row["events"]
        elif row["kind"] in DECISIONS:
            decided[row["at_ms"]] += row["events"]
    busy = set(arrived) | set(decided)
    times = sorted({at + shift for at in busy for shift in (-step_ms, 0, step_ms)})
    waiting = running_backlog([arrived[at] for at in times], [decided[at] for at in times])
    return [FlowStep(at, arrived[at], decided[at], count) for at, count in zip(times, waiting, strict=True)]


class SoldUnits(NamedTuple):
    """Units of an article that are reserved, and how many of them are paid, at the end of a step."""

    sku: str
    at_ms: int
    reserved: int
    paid: int


def sell_through(rows: Rows) -> list[SoldUnits]:
    reserved: dict[tuple[int, str], int] = defaultdict(int)
    paid: dict[tuple[int, str], int] = defaultdict(int)
    found = []
    for row in sorted(rows, key=lambda row: row["at_ms"]):
        key = row["sale_id"], row["sku"]
        reserved[key] += row["reserved"] - row["released"]
        paid[key] += row["sold"]
        found.append(SoldUnits(f"{row['sku']} (sale {row['sale_id']})", row["at_ms"], reserved[key], paid[key]))
    return found


class FairnessFigures(NamedTuple):
    """`inversions` is the share of pairs of one refused and one granted request in which the refused one came first.
    Requests of the same tenth of a second count as neither. `regret_ms` is the longest time between such a pair."""

    granted: int
    refused: int
    inversions: float
    regret_ms: int


def fairness(rows: Rows) -> FairnessFigures:
    granted, refused = sum(row["granted"] for row in rows), sum(row["refused"] for row in rows)
    inverted = regret_ms = pairs = 0
    for mine in grouped_by(rows, "sale_id"):
        before, first_ms = 0, None
        for row in mine:
            inverted += before * row["granted"]
            if row["granted"] and first_ms is not None:
                regret_ms = max(regret_ms, row["came_ms"] - first_ms)
            before += row["refused"]
            first_ms = row["came_ms"] if first_ms is None and row["refused"] else first_ms
        pairs += before * sum(row["granted"] for row in mine)
    return FairnessFigures(granted, refused, inverted / pairs if pairs else 0.0, regret_ms)


class ArrivalCount(NamedTuple):
    """Requests that arrived in one step, by time since the first request of their sale, over all sales."""

    after_ms: int
    granted: int
    refused: int


def arrivals(rows: Rows, step_ms: int) -> list[ArrivalCount]:
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for mine in grouped_by(rows, "sale_id"):
        first_ms = min(row["came_ms"] for row in mine)
        for row in mine:
            count = counts[(row["came_ms"] - first_ms) // step_ms * step_ms]
            count[0] += row["granted"]
            count[1] += row["refused"]
    return [ArrivalCount(after_ms, *counts[after_ms]) for after_ms in sorted(counts)]


def grouped_by(rows: Iterable[dict[str, Any]], column: str) -> list[list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return list(found.values())
