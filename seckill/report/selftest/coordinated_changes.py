"""Coordinated changes: one fact of a purchase is changed from one stage on, and all later stages agree with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from seckill.report.evidence import Evidence

STAGES = (
    ("attempts",),
    ("requests",),
    ("decisions",),
    ("decision_events", "consumed_decisions"),
    ("ledger", "holds"),
    ("orders",),
    ("transitions", "order_events"),
    ("payments", "provider_lines", "settlements", "outcomes", "deliveries"),
    ("sink_lines", "polls"),
)
"""The collections of the evidence in the order in which a purchase goes through them."""

TIMES = ("timestamp_ms", "decided_at_ms", "at_ms", "placed_at_ms", "opened_at_ms", "done_at_ms")

FACTS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "user": (("user_id",), lambda _: "mallory"),
    "sale": (("sale_id",), lambda value: value + 1_000),
    "article": (("sku",), lambda value: f"not {value}"),
    "quantity": (("quantity", "units"), lambda value: value + 1),
    "price": (("unit_price", "amount"), lambda value: value // 2),
    "time": (TIMES, lambda value: value - 3_600_000),
    "gone": ((), lambda _: None),
}  # fmt: skip
"""For each fact the columns that hold it, and how they change."""


class CoordinatedChange(NamedTuple):
    fact: str
    stage: str
    evidence: Evidence


def coordinated_changes(evidence: Evidence, chance: random.Random) -> Iterator[CoordinatedChange]:
    """For one paid purchase, from the second stage on; a change from the first stage on would be another valid run."""
    paid = [order for order in evidence.orders if order.state == "PAID" and order.amount > 0]
    if not paid:
        return
    order = chance.choice(paid)
    names = {order.id, order.request_id}
    names |= {change.event_id for change in evidence.transitions if change.order_id == order.id}
    names |= {payment.id for payment in evidence.payments if payment.order_id == order.id}
    for fact, (columns, new) in FACTS.items():
        for at in range(1, len(STAGES)):
            changed: dict[str, Any] = {}
            for field in (name for stage in STAGES[at:] for name in stage):
                rows = getattr(evidence, field)
                rows_changed = [_changed(row, columns, new) if _is_of(row, names) else row for row in rows]
                rows_changed = [row for row in rows_changed if row is not None]
                if rows_changed != rows:
                    changed[field] = rows_changed
            if changed:
                yield CoordinatedChange(fact, f"changed from {STAGES[at][0]} on", replace(evidence, **changed))


def _is_of(row: Any, names: set[Any]) -> bool:
    return any(
        getattr(row, column, None) in names for column in ("request_id", "order_id", "id", "event_id", "payment_id")
    )


def _changed(row: Any, columns: tuple[str, ...], new: Callable[[Any], Any]) -> Any:
    if not columns:
        return None
    there = {name: getattr(row, name, None) for name in columns}
    return row._replace(**{name: new(value) for name, value in there.items() if value is not None})
