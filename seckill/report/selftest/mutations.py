"""Machine: a run and a seed in, mutations of it out: every table, topic and log, column by column.

A mutation changes one thing as a mistake or a liar might: a row is gone, is there twice or out of its turn; a value is
another row's, a stranger's, a moment's other; or one fact of a purchase is another from some stage on, and all later
stages agree about it. Equal seeds make equal mutations.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import CHANNELS, REFUSALS, RESERVED, Place
from seckill.consistency.selftest import stages
from seckill.consistency.selftest.spoiling import stranger

HOUR_MS = 3_600_000
STRATA_MAX = 6
"""So many kinds of rows of one collection are tried: decisions RESERVED, SOLD_OUT, ..."""

KINDS = {
    "attempts": "status", "called": "what", "committed": "group", "dead": "group", "decided": "decision",
    "decisions_read": "decision", "decisions_said": "decision", "deliveries": "channel", "holds": "state",
    "ledger": "kind", "logs": "topic", "offsets": "group", "orders": "state", "orders_said": "event",
    "outcomes": "state", "payments": "state", "provider": "what", "settled": "kind", "sights": "state",
    "sink": "channel", "transitions": "after", "verbs": "verb", "counted": "kind",
}  # fmt: skip
"""The column that tells the kinds of rows of a collection apart."""

STATES = ("PENDING_PAYMENT", "PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED")
SEEN = ("QUEUED", RESERVED, "AWAITING_PAYMENT", "PAID", "EXPIRED", "CANCELLED", "NOT_PLACED", *sorted(REFUSALS))
EVENTS = ("OrderPlaced", "OrderPaid", "OrderExpired", "OrderCancelled", "OrderRefunded", "LatePaymentRefunded")
ACCOUNTS = ("supply", "available", "reserved", "sold")
WORDS: Mapping[tuple[str, str], Sequence[object]] = {
    ("attempts", "status"): (0, 202, 403, 404, 409, 410, 429, 503),
    ("sights", "status"): (0, 200, 401, 404, 429, 503),
    ("called", "status"): (0, 202, 403, 404, 409, 410, 503),
    ("sights", "state"): SEEN,
    ("outcomes", "state"): SEEN,
    ("decided", "decision"): (RESERVED, *sorted(REFUSALS)),
    ("decisions_said", "decision"): (RESERVED, "UnitsReleased", *sorted(REFUSALS)),
    ("decisions_read", "decision"): (RESERVED, *sorted(REFUSALS)),
    ("holds", "state"): ("reserved", "sold", "released"),
    ("orders", "state"): STATES,
    ("transitions", "before"): ("", *STATES),
    ("transitions", "after"): STATES,
    ("orders_said", "event"): (*EVENTS, "OrderNotPlaced"),
    ("settled", "kind"): EVENTS,
    ("ledger", "kind"): ("declare", "adjust", "reserve", "sell", "release", "return"),
    ("ledger", "debit"): ACCOUNTS,
    ("ledger", "credit"): ACCOUNTS,
    ("payments", "state"): ("open", "captured", "voided", "refunding", "refunded"),
    ("provider", "what"): ("opened", "captured", "voided", "refunded"),
    ("callbacks", "kind"): ("captured", "refunded"),
    ("deliveries", "state"): ("due", "done", "given_up"),
    ("deliveries", "channel"): CHANNELS,
    ("sink", "what"): ("effect", "again", "refused"),
    ("sink", "channel"): CHANNELS,
    ("sales", "state"): ("open", "paused", "closed"),
}
"""What else a column may say, where that is a word of a list."""

ORDERED = ("sink", "transitions", "verbs")
"""Where the order of the rows says something; elsewhere a time, a version or a place does."""


class Mutation(NamedTuple):
    """`column` empty: of whole rows."""

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
            yield from _of_rows(evidence, field.name, rows, chance)
    yield from _of_gates(evidence)
    yield from _of_queues(evidence)
    for lie in stages.lies(evidence, chance):
        yield Mutation("stages", lie.fact, lie.stage, "", lie.evidence)


def _of_rows(evidence: Evidence, field: str, rows: list[Any], chance: random.Random) -> Iterator[Mutation]:
    strata: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        strata[str(getattr(row, KINDS[field])) if field in KINDS else ""].append(number)
    for stratum in sorted(strata, key=lambda name: (-len(strata[name]), name))[:STRATA_MAX]:
        at = chance.choice(strata[stratum])
        made = partial(Mutation, field, stratum=stratum)
        row = rows[at]

        def spoilt(*changes: tuple[int, Any]) -> Evidence:
            copied = list(rows)
            for place, changed in changes:
                copied[place] = changed
            return replace(evidence, **{field: copied})  # type: ignore[arg-type]

        yield made("", "gone", evidence=replace(evidence, **{field: [*rows[:at], *rows[at + 1 :]]}))  # type: ignore[arg-type]
        yield made("", "twice", evidence=replace(evidence, **{field: [*rows, row]}))  # type: ignore[arg-type]
        if field in ORDERED and len(rows) > 1:
            near = _neighbour(rows, at)
            yield made("", "out of turn", evidence=spoilt((at, rows[near]), (near, row)))
        for column in row._fields:
            for kind, value in _values(field, rows, row, column, chance):
                if value != getattr(row, column):
                    yield made(column, kind, evidence=spoilt((at, row._replace(**{column: value}))))
            other = _different(rows, row, column, chance)
            if other is not None:
                mine, theirs = getattr(row, column), getattr(rows[other], column)
                changes = (at, row._replace(**{column: theirs})), (other, rows[other]._replace(**{column: mine}))
                if changes[0][1] != rows[other]:  # else they differ in nothing more, and nothing has changed
                    yield made(column, "exchanged", evidence=spoilt(*changes))


def _values(field: str, rows: list[Any], row: Any, column: str, chance: random.Random) -> Iterator[tuple[str, Any]]:
    """How, and what is there instead."""
    value = getattr(row, column)
    words = WORDS.get((field, column))
    if words is not None:
        yield from ((f"says {word}", word) for word in words)
        return
    other = _different(rows, row, column, chance)
    if other is not None:
        yield "another's", getattr(rows[other], column)
    if isinstance(value, bool):
        yield "is the opposite", not value
    elif isinstance(value, int) and column.endswith("_ms"):
        yield "an hour later", value + HOUR_MS
        yield "an hour earlier", value - HOUR_MS
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
    elif isinstance(value, Place):
        yield "the next place", value._replace(offset=value.offset + 1)
    elif isinstance(value, str):
        yield "a stranger's", stranger(7)
    elif isinstance(value, dict):
        yield "nothing", {}
    if isinstance(value, str) and value and other is None:
        yield "nothing", ""


def _different(rows: list[Any], row: Any, column: str, chance: random.Random) -> int | None:
    """Another row with another value there."""
    value = getattr(row, column)
    for number in chance.sample(range(len(rows)), min(len(rows), 50)):
        if getattr(rows[number], column) != value and type(getattr(rows[number], column)) is type(value):
            return number
    return None


def _neighbour(rows: Sequence[Any], at: int) -> int:
    """The nearest one that is about the same user, event or order; else the next one."""
    names = ("order_id", "user_id", "target")
    mine = {getattr(rows[at], name) for name in names if hasattr(rows[at], name)}
    for number, row in enumerate(rows):
        if number != at and row != rows[at] and mine & {getattr(row, name) for name in names if hasattr(row, name)}:
            return number
    return (at + 1) % len(rows)


def _of_gates(evidence: Evidence) -> Iterator[Mutation]:
    gates = evidence.gates
    for number, gate in enumerate(gates):
        if not gate.granted:
            continue
        first, units = next(iter(gate.granted.items()))
        others = {request: count for request, count in gate.granted.items() if request != first}
        for kind, granted in (
            ("a grant gone", others),
            ("a grant too many", {**gate.granted, stranger(8): 1}),
            ("a stranger's grant", {**others, stranger(8): units}),
            ("a grant of one unit more", {**gate.granted, first: units + 1}),
        ):
            spoilt = [*gates[:number], gate._replace(granted=granted), *gates[number + 1 :]]
            yield Mutation("gates", "granted", kind, "", replace(evidence, gates=spoilt))
        return


def _of_queues(evidence: Evidence) -> Iterator[Mutation]:
    """What is empty in a good run, and is not."""
    yield Mutation("outbox", "", "one event left", "", replace(evidence, outbox={"orders": 1}))
    if evidence.holds:
        request = evidence.holds[0].request_id
        yield Mutation("gate_owed", "", "one release left", "", replace(evidence, gate_owed=[request]))
    yield Mutation("orphans", "", "one that nobody paid", "", replace(evidence, orphans=[stranger(9)]))


def distinct(found: Iterable[Mutation]) -> list[Mutation]:
    """One of each name."""
    return list({mutation.what: mutation for mutation in found}.values())
