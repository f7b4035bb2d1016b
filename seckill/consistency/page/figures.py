"""What the pictures show, as plain numbers: pure functions of the evidence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import RESERVED, Stock

MOST_STEPS = 160
STEPS_MS = (100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)


class Peak(NamedTuple):
    """Per step of so many milliseconds from `began_ms` on; rates are per second, the backlog is at the step's end."""

    began_ms: int
    step_ms: int
    offered: list[float]
    acknowledged: list[float]
    decided: list[float]
    backlog: list[int]


class Latency(NamedTuple):
    stage: str
    samples: int
    p50_ms: int
    p90_ms: int
    p99_ms: int
    most_ms: int


class Account(NamedTuple):
    name: str
    debits: dict[str, int]  # by kind of entry
    credits: dict[str, int]

    @property
    def balance(self) -> int:
        return sum(self.credits.values()) - sum(self.debits.values())


def funnel(evidence: Evidence) -> list[tuple[str, int]]:
    """How many came how far."""
    accepted = {attempt.request_id for attempt in evidence.attempts if attempt.status == 202}
    return [
        ("attempts", len(evidence.attempts)),
        ("requests accepted", len(accepted)),
        ("requests in the log", len(evidence.first_requested)),
        ("decided", len(evidence.decided)),
        ("reserved", sum(row.decision == RESERVED for row in evidence.decided)),
        ("ordered", len(evidence.orders)),
        ("paid", sum(order.state == "PAID" for order in evidence.orders)),
    ]


def peak(evidence: Evidence) -> Peak | None:
    """None: nothing was ever asked or decided. Long silences at the end are cut off."""
    offered = [attempt.at_ms for attempt in evidence.attempts]
    acked = [attempt.at_ms + attempt.took_ms for attempt in evidence.attempts if attempt.status == 202]
    arrived = [said.timestamp_ms for said in evidence.first_requested.values()]
    decided = [row.decided_at_ms for row in evidence.decided]
    times = offered + acked + arrived + decided
    if not times:
        return None
    began, span = min(times), max(times) - min(times) + 1
    step = next((step for step in STEPS_MS if span / step <= MOST_STEPS), span // MOST_STEPS + 1)
    steps = span // step + 1

    def rates(moments: Sequence[int]) -> list[float]:
        counts = Counter((moment - began) // step for moment in moments)
        return [counts[number] * 1000 / step for number in range(steps)]

    came, went = (Counter((moment - began) // step for moment in moments) for moments in (arrived, decided))
    backlog, level = [], 0
    for number in range(steps):
        level += came[number] - went[number]
        backlog.append(max(0, level))
    return Peak(began, step, rates(offered), rates(acked), rates(decided), backlog)


def latencies(evidence: Evidence) -> list[Latency]:
    """From stage to stage, by the clocks of those who wrote it down."""
    logged = {request: said.timestamp_ms for request, said in evidence.first_requested.items()}
    ended: dict[UUID, int] = {}
    for sight in sorted(evidence.sights):
        if sight.status == 200 and sight.state not in ("", "QUEUED"):
            ended.setdefault(sight.request_id, sight.at_ms + sight.took_ms)
    began = {attempt.request_id: attempt.at_ms for attempt in reversed(evidence.attempts) if attempt.status == 202}
    placed = {change.event_id: change.at_ms for change in evidence.transitions}
    stages = {
        "click → accepted": [attempt.took_ms for attempt in evidence.attempts if attempt.status == 202],
        "in the log → decided": [
            row.decided_at_ms - logged[row.request_id] for row in evidence.decided if row.request_id in logged
        ],
        "decided → ordered": [
            order.placed_at_ms - evidence.decision_of[order.request_id].decided_at_ms
            for order in evidence.orders
            if order.request_id in evidence.decision_of
        ],
        "click → buyer knows": [at_ms - began[request] for request, at_ms in ended.items() if request in began],
        "order event → message": [
            line.at_ms - placed[line.event_id]
            for line in evidence.sink
            if line.what == "effect" and line.event_id in placed
        ],
    }
    return [_latency(stage, sorted(values)) for stage, values in stages.items() if values]


def _latency(stage: str, values: list[int]) -> Latency:
    p50, p90, p99 = (values[(len(values) - 1) * share // 100] for share in (50, 90, 99))
    return Latency(stage, len(values), p50, p90, p99, values[-1])


def accounts(evidence: Evidence, stock: Stock) -> list[Account]:
    """The ledger of a stock as bookkeepers draw it."""
    debits: dict[str, Counter[str]] = defaultdict(Counter)
    credits: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in evidence.entries.get(stock.id, ()):
        debits[entry.debit][entry.kind] += entry.units
        credits[entry.credit][entry.kind] += entry.units
    return [
        Account(name, dict(debits[name]), dict(credits[name])) for name in ("supply", "available", "reserved", "sold")
    ]
