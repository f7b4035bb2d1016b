"""What the pictures show, as plain numbers: pure functions of the evidence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.observed import unplanned
from seckill.consistency.rows import RESERVED, Stock

MOST_STEPS = 160
MOST_BARS = 100
MOST_BANDS = 12
NARROW = 0.01
STEPS_MS = (100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)


class Peak(NamedTuple):
    """Per step of so many milliseconds from `began_ms` on; rates are per second, the backlog is at the step's end."""

    began_ms: int
    step_ms: int
    offered: list[float]
    acknowledged: list[float]
    decided: list[float]
    backlog: list[int]


class Band(NamedTuple):
    """A fault, in seconds from the peak's beginning; bands without a name are too close to the one before."""

    from_s: float
    to_s: float
    name: str


class Level(NamedTuple):
    """Units that are held and sold from this moment on."""

    at_s: float
    held: int
    sold: int


class Share(NamedTuple):
    """Of those who came as number `first` to `end`, this share got a unit."""

    first: int
    end: int
    served: float


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


def bands(evidence: Evidence, found: Peak) -> list[Band]:
    """The faults that really happened, planned or observed, within the picture's time; a moment is drawn as wide as one
    can see."""
    span_s = len(found.backlog) * found.step_ms / 1000
    drawn: list[Band] = []
    lines = evidence.injected + [
        {"at_ms": each.at_ms, "until_ms": each.until_ms or each.at_ms, "fault": each.what}
        for each in unplanned(evidence)
    ]
    for line in sorted(lines, key=lambda line: int(line.get("at_ms", 0))):
        from_s = (int(line.get("at_ms", 0)) - found.began_ms) / 1000
        to_s = (int(line.get("until_ms", line.get("at_ms", 0))) - found.began_ms) / 1000
        if to_s < 0 or from_s > span_s:
            continue
        is_crowded = len(drawn) >= MOST_BANDS or (drawn and from_s - drawn[-1].from_s < 12 * NARROW * span_s)
        name = "" if is_crowded else str(line.get("fault", ""))
        drawn.append(Band(max(0.0, from_s), min(span_s, max(to_s, from_s + NARROW * span_s)), name))
    return drawn


def sold_out_s(evidence: Evidence, found: Peak) -> float | None:
    """When nothing was left for the first time, in seconds from the peak's beginning."""
    for stock in evidence.stocks:
        level = 0
        for entry in evidence.entries.get(stock.id, ()):
            level += entry.units * ((entry.credit == "available") - (entry.debit == "available"))
            if not level:
                return max(0.0, (entry.at_ms - found.began_ms) / 1000)
    return None


def sell_through(evidence: Evidence, began_ms: int) -> list[Level]:
    """After each step of time in which something moved."""
    moves = sorted((entry.at_ms, entry) for entry in evidence.ledger if entry.kind != "declare")
    if not moves:
        return []
    step = max(1, (moves[-1][0] - moves[0][0]) // MOST_STEPS)
    levels = [Level(max(0.0, (moves[0][0] - began_ms) / 1000), 0, 0)]
    held = sold = 0
    until = moves[0][0] + step
    for at_ms, entry in moves:
        if at_ms >= until:
            levels.append(Level((until - began_ms) / 1000, held, sold))
            until = at_ms + step
        held += entry.units * ((entry.credit == "reserved") - (entry.debit == "reserved"))
        sold += entry.units * ((entry.credit == "sold") - (entry.debit == "sold"))
    return [*levels, Level((moves[-1][0] - began_ms) / 1000, held, sold)]


def fairness(evidence: Evidence) -> list[Share]:
    """By order of arrival in the log, of all who could have had one."""
    came = sorted(
        (evidence.first_requested[row.request_id].came, row.decision == RESERVED)
        for row in evidence.decided
        if row.decision in (RESERVED, "SOLD_OUT") and row.request_id in evidence.first_requested
    )
    wide = max(1, -(-len(came) // MOST_BARS))
    groups = [came[first : first + wide] for first in range(0, len(came), wide)]
    return [
        Share(number * wide, number * wide + len(group), sum(served for _, served in group) / len(group))
        for number, group in enumerate(groups)
    ]


def latencies(evidence: Evidence) -> list[Latency]:
    """From stage to stage, by the clocks of those who wrote it down."""
    logged = {request: said.timestamp_ms for request, said in evidence.first_requested.items()}
    ended: dict[Id, int] = {}
    for sight in sorted(evidence.sights, key=lambda sight: sight[:2]):
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
