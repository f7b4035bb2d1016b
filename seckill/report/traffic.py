"""Machine: the definitions of funnel, rate and backlog, shared by report, statistics page, console and demo.

All of them count the same things from different sources: the report from tables and logs, the statistics page from rows
that Spark wrote, the console and the demo from counters that grow while a sale runs. They all call the functions here
with plain numbers, so "backlog" and "decided" mean the same on every screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple


class FunnelStage(StrEnum):
    """How far purchases get, in order."""

    ATTEMPTED = "attempted"  # POSTs, including retries
    ACCEPTED = "accepted"  # requests whose POST was answered with 202
    REQUESTED = "requested"  # distinct requests in the log
    DECIDED = "decided"
    RESERVED = "reserved"
    ORDERED = "ordered"
    PAID = "paid"


def funnel(counts: Mapping[FunnelStage, int]) -> list[tuple[FunnelStage, int]]:
    """The stages that the source can count, in order."""
    return [(stage, counts[stage]) for stage in FunnelStage if stage in counts]


class TrafficTotals(NamedTuple):
    """Counters at one moment. `offered` counts purchases sent, `acknowledged` those answered with 202."""

    at_ms: int
    offered: int
    acknowledged: int
    decided: int


class TrafficRates(NamedTuple):
    """Rates per second over the interval that ends at `at_ms`, and the backlog at its end."""

    at_ms: int
    offered: float
    acknowledged: float
    decided: float
    backlog: int


def traffic_rates(before: TrafficTotals, after: TrafficTotals) -> TrafficRates | None:
    """None if no time has passed between the two. A counter that restarted at zero gives a rate of zero."""
    span_ms = after.at_ms - before.at_ms
    if span_ms <= 0:
        return None
    offered, acknowledged, decided = (
        rate_per_second(max(0, now - then), span_ms) for then, now in zip(before[1:], after[1:], strict=True)
    )
    return TrafficRates(after.at_ms, offered, acknowledged, decided, backlog(after.acknowledged, after.decided))


def rate_per_second(count: int, span_ms: float) -> float:
    return count * 1000 / span_ms


def backlog(arrived: int, decided: int) -> int:
    """Requests that wait for a decision. Never negative, because the two counters may be read at different times."""
    return max(0, arrived - decided)


def running_backlog(arrived: Sequence[int], decided: Sequence[int]) -> list[int]:
    """The backlog at the end of each step, from the number of arrivals and decisions in that step."""
    return [backlog(come, gone) for come, gone in zip(accumulate(arrived), accumulate(decided), strict=True)]
