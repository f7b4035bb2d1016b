"""Machine: the numbers behind the charts of the report, computed from the evidence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from seckill.report.disturbances import find_unplanned
from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import RESERVED, Stock
from seckill.report.traffic import FunnelStage, funnel, rate_per_second, running_backlog

STEPS_MAX = 160
BARS_MAX = 100
LABEL_ROWS = 3
LABEL_SHARE = 0.03
"""Of the chart's width, for each number."""
BAND_SHARE_MIN = 0.01
"""A short fault is drawn at least this wide, as a share of the chart, so that it can be seen."""
STEPS_MS = (100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)


class PeakCurves(NamedTuple):
    """Rates per second in steps of `step_ms` from `began_ms` on, and the backlog at the end of each step."""

    began_ms: int
    step_ms: int
    offered: list[float]
    acknowledged: list[float]
    decided: list[float]
    backlog: list[int]


class FaultRow(NamedTuple):
    """An injected fault or an observed disturbance, numbered in order of time. Without `until_ms` it has not ended, or
    its end is unknown; without `at_ms` it may have happened at any time."""

    number: int
    at_ms: int
    until_ms: int | None
    what: str
    ended: str
    is_planned: bool

    @property
    def seconds(self) -> float | None:
        return None if self.until_ms is None else (self.until_ms - self.at_ms) / 1000


class FaultBand(NamedTuple):
    """A fault, in seconds since the first attempt. The name is its number, in one of a few rows, or empty without
    room."""

    from_s: float
    to_s: float
    name: str
    row: int


class UnitLevel(NamedTuple):
    """Units held and sold from `at_s` on."""

    at_s: float
    held: int
    sold: int


class ArrivalShare(NamedTuple):
    """The share of requests that got a unit, among arrivals number `first` up to but not including `end`."""

    first: int
    end: int
    served: float


class StageLatency(NamedTuple):
    stage: str
    samples: int
    p50_ms: int
    p90_ms: int
    p99_ms: int
    max_ms: int


class LedgerAccount(NamedTuple):
    """One side of a double entry: units by kind of ledger entry."""

    name: str
    debits: dict[str, int]
    credits: dict[str, int]

    @property
    def balance(self) -> int:
        return sum(self.credits.values()) - sum(self.debits.values())


def purchase_funnel(evidence: Evidence) -> list[tuple[FunnelStage, int]]:
    accepted = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    return funnel(
        {
            FunnelStage.ATTEMPTED: len(evidence.attempts),
            FunnelStage.ACCEPTED: len(accepted),
            FunnelStage.REQUESTED: len(evidence.first_request_by_id),
            FunnelStage.DECIDED: len(evidence.decisions),
            FunnelStage.RESERVED: sum(row.decision == RESERVED for row in evidence.decisions),
            FunnelStage.ORDERED: len(evidence.orders),
            FunnelStage.PAID: sum(order.state == "PAID" for order in evidence.orders),
        }
    )


def peak_curves(evidence: Evidence) -> PeakCurves | None:
    """None if the run has neither attempts nor decisions."""
    offered = [attempt.at_ms for attempt in evidence.attempts]
    acknowledged = [attempt.at_ms + attempt.took_ms for attempt in evidence.attempts if attempt.status == 202]
    arrived = [record.timestamp_ms for record in evidence.first_request_by_id.values()]
    decided = [row.decided_at_ms for row in evidence.decisions]
    times = offered + acknowledged + arrived + decided
    if not times:
        return None
    began, span = min(times), max(times) - min(times) + 1
    step = next((step for step in STEPS_MS if span / step <= STEPS_MAX), span // STEPS_MAX + 1)
    steps = span // step + 1

    def per_step(times_ms: Sequence[int]) -> list[int]:
        counts = Counter((at_ms - began) // step for at_ms in times_ms)
        return [counts[number] for number in range(steps)]

    def rates(times_ms: Sequence[int]) -> list[float]:
        return [rate_per_second(count, step) for count in per_step(times_ms)]

    backlog = running_backlog(per_step(arrived), per_step(decided))
    return PeakCurves(began, step, rates(offered), rates(acknowledged), rates(decided), backlog)


def fault_rows(evidence: Evidence) -> list[FaultRow]:
    """Injected faults and unplanned disturbances."""
    found = [
        (int(line.get("at_ms", 0)), line.get("until_ms"), str(line.get("fault", "fault")), "", True)
        for line in evidence.injected_faults
    ]
    found += [(each.at_ms, each.until_ms, each.what, each.ended, False) for each in find_unplanned(evidence)]
    found.sort(key=lambda each: each[0])
    return [FaultRow(number, *each) for number, each in enumerate(found, 1)]


def fault_bands(rows: Sequence[FaultRow], curves: PeakCurves) -> list[FaultBand]:
    """Those during the time that the chart covers."""
    span_s = len(curves.backlog) * curves.step_ms / 1000
    bands: list[FaultBand] = []
    free_from_s = [0.0] * LABEL_ROWS
    for row in rows:
        from_s = (row.at_ms - curves.began_ms) / 1000
        to_s = ((row.until_ms or row.at_ms) - curves.began_ms) / 1000
        if to_s < 0 or from_s > span_s:
            continue
        from_s = max(0.0, from_s)
        place = next((place for place, free_s in enumerate(free_from_s) if free_s <= from_s), None)
        if place is not None:
            free_from_s[place] = from_s + LABEL_SHARE * span_s
        name, place = ("", 0) if place is None else (str(row.number), place)
        bands.append(FaultBand(from_s, min(span_s, max(to_s, from_s + BAND_SHARE_MIN * span_s)), name, place))
    return bands


def sold_out_s(evidence: Evidence, curves: PeakCurves) -> float | None:
    """When a stock first had no unit available, in seconds since the first attempt."""
    for stock in evidence.stocks:
        available = 0
        for entry in evidence.entries_by_stock.get(stock.id, ()):
            available += entry.units * ((entry.credit == "available") - (entry.debit == "available"))
            if not available:
                return max(0.0, (entry.at_ms - curves.began_ms) / 1000)
    return None


def unit_levels(evidence: Evidence, began_ms: int) -> list[UnitLevel]:
    """Units held and sold after each time step in which units moved."""
    moves = sorted((entry.at_ms, entry) for entry in evidence.ledger if entry.kind != "declare")
    if not moves:
        return []
    step = max(1, (moves[-1][0] - moves[0][0]) // STEPS_MAX)
    levels = [UnitLevel(max(0.0, (moves[0][0] - began_ms) / 1000), 0, 0)]
    held = sold = 0
    until = moves[0][0] + step
    for at_ms, entry in moves:
        if at_ms >= until:
            levels.append(UnitLevel((until - began_ms) / 1000, held, sold))
            until = at_ms + step
        held += entry.units * ((entry.credit == "reserved") - (entry.debit == "reserved"))
        sold += entry.units * ((entry.credit == "sold") - (entry.debit == "sold"))
    return [*levels, UnitLevel((moves[-1][0] - began_ms) / 1000, held, sold)]


def arrival_shares(evidence: Evidence) -> list[ArrivalShare]:
    """In order of arrival in the log, among all requests that were served or found the sale sold out."""
    arrivals = sorted(
        (evidence.first_request_by_id[row.request_id].arrival, row.decision == RESERVED)
        for row in evidence.decisions
        if row.decision in (RESERVED, "SOLD_OUT") and row.request_id in evidence.first_request_by_id
    )
    size = max(1, -(-len(arrivals) // BARS_MAX))
    groups = [arrivals[first : first + size] for first in range(0, len(arrivals), size)]
    return [
        ArrivalShare(number * size, number * size + len(group), sum(served for _, served in group) / len(group))
        for number, group in enumerate(groups)
    ]


def stage_latencies(evidence: Evidence) -> list[StageLatency]:
    """From stage to stage, by the clocks of the hosts that logged them."""
    logged = {request: record.timestamp_ms for request, record in evidence.first_request_by_id.items()}
    informed: dict[Id, int] = {}
    for poll in sorted(evidence.polls, key=lambda poll: poll[:2]):
        if poll.status == 200 and poll.state not in ("", "QUEUED"):
            informed.setdefault(poll.request_id, poll.at_ms + poll.took_ms)
    clicked = {attempt.request_id: attempt.at_ms for attempt in reversed(evidence.attempts) if attempt.status == 202}
    changed = {change.event_id: change.at_ms for change in evidence.transitions}
    stages = {
        "click → accepted": [attempt.took_ms for attempt in evidence.attempts if attempt.status == 202],
        "in the log → decided": [
            row.decided_at_ms - logged[row.request_id] for row in evidence.decisions if row.request_id in logged
        ],
        "decided → ordered": [
            order.placed_at_ms - evidence.decision_by_request[order.request_id].decided_at_ms
            for order in evidence.orders
            if order.request_id in evidence.decision_by_request
        ],
        "click → buyer sees outcome": [
            at_ms - clicked[request] for request, at_ms in informed.items() if request in clicked
        ],
        "order event → message": [
            line.at_ms - changed[line.event_id]
            for line in evidence.sink_lines
            if line.what == "effect" and line.event_id in changed
        ],
    }
    return [_percentiles(stage, sorted(values)) for stage, values in stages.items() if values]


def _percentiles(stage: str, values: list[int]) -> StageLatency:
    p50, p90, p99 = (values[(len(values) - 1) * share // 100] for share in (50, 90, 99))
    return StageLatency(stage, len(values), p50, p90, p99, values[-1])


def ledger_accounts(evidence: Evidence, stock: Stock) -> list[LedgerAccount]:
    """The ledger of a stock as T-accounts."""
    debits: dict[str, Counter[str]] = defaultdict(Counter)
    credits: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in evidence.entries_by_stock.get(stock.id, ()):
        debits[entry.debit][entry.kind] += entry.units
        credits[entry.credit][entry.kind] += entry.units
    return [
        LedgerAccount(name, dict(debits[name]), dict(credits[name]))
        for name in ("supply", "available", "reserved", "sold")
    ]
