"""Machine: from a run and a seed to mutations of every table, topic and log, column by column.

A mutation changes one thing as a bug or a forger might: a row is missing, duplicated or moved; a value is replaced or
exchanged; or one fact of a purchase is changed consistently from one stage on. Equal seeds make equal mutations.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from seckill.report.evidence import Evidence
from seckill.report.rows import CHANNELS, REFUSALS, RESERVED, RecordPosition
from seckill.report.selftest import coordinated_changes
from seckill.report.selftest.corruptions import unknown_id

HOUR_MS = 3_600_000
STRATA_MAX = 6
"""For each collection this many kinds of rows are mutated, such as decisions RESERVED and SOLD_OUT."""

KINDS = {
    "attempts": "status", "other_calls": "what", "committed_offsets": "group", "dead_letters": "group",
    "decisions": "decision",
    "consumed_decisions": "decision", "decision_events": "decision", "deliveries": "channel", "holds": "state",
    "ledger": "kind", "partition_logs": "topic", "group_offsets": "group", "orders": "state", "order_events": "event",
    "outcomes": "state", "payments": "state", "provider_lines": "what", "settlements": "kind", "polls": "state",
    "sink_lines": "channel", "transitions": "after", "operator_actions": "verb", "spark_counts": "kind",
}  # fmt: skip
"""The column that distinguishes the kinds of rows of a collection."""

STATES = ("PENDING_PAYMENT", "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED")
SEEN = ("QUEUED", RESERVED, "AWAITING_PAYMENT", "PAID", "EXPIRED", "CANCELLED", "NOT_PLACED", *sorted(REFUSALS))
EVENTS = ("OrderPlaced", "OrderPaid", "OrderExpired", "OrderCancelled", "OrderRefunded", "LatePaymentRefunded")
ACCOUNTS = ("supply", "available", "reserved", "sold")
WORDS: Mapping[tuple[str, str], Sequence[object]] = {
    ("attempts", "status"): (0, 202, 403, 404, 409, 410, 429, 503),
    ("polls", "status"): (0, 200, 401, 404, 429, 503),
    ("other_calls", "status"): (0, 202, 403, 404, 409, 410, 503),
    ("polls", "state"): SEEN,
    ("outcomes", "state"): SEEN,
    ("decisions", "decision"): (RESERVED, *sorted(REFUSALS)),
    ("decision_events", "decision"): (RESERVED, "UnitsReleased", *sorted(REFUSALS)),
    ("consumed_decisions", "decision"): (RESERVED, *sorted(REFUSALS)),
    ("holds", "state"): ("reserved", "sold", "released"),
    ("orders", "state"): STATES,
    ("transitions", "before"): ("", *STATES),
    ("transitions", "after"): STATES,
    ("order_events", "event"): (*EVENTS, "OrderNotPlaced"),
    ("settlements", "kind"): EVENTS,
    ("ledger", "kind"): ("declare", "adjust", "reserve", "sell", "release", "return"),
    ("ledger", "debit"): ACCOUNTS,
    ("ledger", "credit"): ACCOUNTS,
    ("payments", "state"): ("open", "captured", "voided", "refunding", "refunded"),
    ("provider_lines", "what"): ("opened", "captured", "voided", "refunded"),
    ("callbacks", "kind"): ("captured", "refunded"),
    ("deliveries", "state"): ("due", "done", "given_up"),
    ("deliveries", "channel"): CHANNELS,
    ("sink_lines", "what"): ("effect", "again", "refused"),
    ("sink_lines", "channel"): CHANNELS,
    ("sales", "state"): ("open", "paused", "closed"),
}
"""The values of columns that hold one of a fixed list."""

ORDERED = ("sink_lines", "transitions", "operator_actions")
"""Collections whose rows are ordered; the others are ordered by a time, a version or a position."""


class Mutation(NamedTuple):
    """`column` is empty if the mutation is about whole rows."""

    field: str
    column: str
    kind: str
    stratum: str
    evidence: Evidence

    @property
    def what(self) -> str:
        name = f"{self.field}.{self.column}" if self.column else self.field
        return f"{name} {self.kind}" + (f" ({self.stratum})" if self.stratum else "")


def mutations(evidence: Evidence, seed: int) -> Iterator[Mutation]:
    chance = random.Random(seed)
    for field in fields(evidence):
        rows = getattr(evidence, field.name)
        if isinstance(rows, list) and rows and hasattr(rows[0], "_fields"):
            yield from _row_mutations(evidence, field.name, rows, chance)
    yield from _gate_mutations(evidence)
    yield from _queue_mutations(evidence)
    for change in coordinated_changes.coordinated_changes(evidence, chance):
        yield Mutation("stages", change.fact, change.stage, "", change.evidence)


def _row_mutations(evidence: Evidence, field: str, rows: list[Any], chance: random.Random) -> Iterator[Mutation]:
    strata: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        strata[str(getattr(row, KINDS[field])) if field in KINDS else ""].append(number)
    for stratum in sorted(strata, key=lambda name: (-len(strata[name]), name))[:STRATA_MAX]:
        at = chance.choice(strata[stratum])
        made = partial(Mutation, field, stratum=stratum)
        row = rows[at]

        def mutated(*changes: tuple[int, Any]) -> Evidence:
            copied = list(rows)
            for place, changed in changes:
                copied[place] = changed
            return replace(evidence, **{field: copied})  # type: ignore[arg-type]

        yield made("", "missing", evidence=replace(evidence, **{field: [*rows[:at], *rows[at + 1 :]]}))  # type: ignore[arg-type]
        yield made("", "duplicated", evidence=replace(evidence, **{field: [*rows, row]}))  # type: ignore[arg-type]
        if field in ORDERED and len(rows) > 1:
            near = _neighbour(rows, at)
            yield made("", "moved", evidence=mutated((at, rows[near]), (near, row)))
        for column in row._fields:
            for kind, value in _values(field, rows, row, column, chance):
                if value != getattr(row, column):
                    yield made(column, kind, evidence=mutated((at, row._replace(**{column: value}))))
            other = _different(rows, row, column, chance)
            if other is not None:
                mine, theirs = getattr(row, column), getattr(rows[other], column)
                changes = (at, row._replace(**{column: theirs})), (other, rows[other]._replace(**{column: mine}))
                if changes[0][1] != rows[other]:  # otherwise the rows are equal and nothing has changed
                    yield made(column, "exchanged", evidence=mutated(*changes))


def _values(field: str, rows: list[Any], row: Any, column: str, chance: random.Random) -> Iterator[tuple[str, Any]]:
    """The kind of change, and the new value."""
    value = getattr(row, column)
    words = WORDS.get((field, column))
    if words is not None:
        yield from ((f"says {word}", word) for word in words)
        return
    other = _different(rows, row, column, chance)
    if other is not None:
        yield "another's value", getattr(rows[other], column)
    if isinstance(value, bool):
        yield "is the opposite", not value
    elif isinstance(value, int) and column.endswith("_ms"):
        yield "an hour later", value + HOUR_MS
        yield "an hour earlier", value - HOUR_MS
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
    elif isinstance(value, RecordPosition):
        yield "the next position", value._replace(offset=value.offset + 1)
    elif isinstance(value, str):
        yield "an unknown value", unknown_id(7)
    elif isinstance(value, dict):
        yield "nothing", {}
    if isinstance(value, str) and value and other is None:
        yield "nothing", ""


def _different(rows: list[Any], row: Any, column: str, chance: random.Random) -> int | None:
    """The number of a row with another value in this column."""
    value = getattr(row, column)
    for number in chance.sample(range(len(rows)), min(len(rows), 50)):
        if getattr(rows[number], column) != value and type(getattr(rows[number], column)) is type(value):
            return number
    return None


def _neighbour(rows: Sequence[Any], at: int) -> int:
    """A row about the same order, user or target; otherwise the next row."""
    names = ("order_id", "user_id", "target")
    mine = {getattr(rows[at], name) for name in names if hasattr(rows[at], name)}
    for number, row in enumerate(rows):
        if number != at and row != rows[at] and mine & {getattr(row, name) for name in names if hasattr(row, name)}:
            return number
    return (at + 1) % len(rows)


def _gate_mutations(evidence: Evidence) -> Iterator[Mutation]:
    gates = evidence.gates
    for number, gate in enumerate(gates):
        if not gate.granted:
            continue
        first, units = next(iter(gate.granted.items()))
        others = {request: count for request, count in gate.granted.items() if request != first}
        for kind, granted in (
            ("a grant gone", others),
            ("a grant too many", {**gate.granted, unknown_id(8): 1}),
            ("an unknown request's grant", {**others, unknown_id(8): units}),
            ("a grant of one unit more", {**gate.granted, first: units + 1}),
        ):
            mutated = [*gates[:number], gate._replace(granted=granted), *gates[number + 1 :]]
            yield Mutation("gates", "granted", kind, "", replace(evidence, gates=mutated))
        return


def _queue_mutations(evidence: Evidence) -> Iterator[Mutation]:
    """Collections that are empty in a good run get a row."""
    yield Mutation("unpublished", "", "one event left", "", replace(evidence, unpublished={"orders": 1}))
    if evidence.holds:
        request = evidence.holds[0].request_id
        yield Mutation("gate_releases_due", "", "one release left", "", replace(evidence, gate_releases_due=[request]))
    yield Mutation(
        "orphan_payments", "", "an orphan without a payment", "", replace(evidence, orphan_payments=[unknown_id(9)])
    )


def distinct(found: Iterable[Mutation]) -> list[Mutation]:
    """One mutation for each name."""
    return list({mutation.what: mutation for mutation in found}.values())
