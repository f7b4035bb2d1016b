"""Codec: counts of one moment → residuals, each with as much as is under way and may still explain it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    HOLDS = "holds"
    IN_FLIGHT = "in flight"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Counts(NamedTuple):
    """One snapshot of Postgres; then the gate, then how far the topics have come since. None: it could not be read."""

    oversold: int  # units given away beyond what was declared and added
    unbalanced: int  # units by which stock rows differ from the sums of their ledgers, and supply from its uses
    reserved: int  # decisions RESERVED
    placed: int  # orders, and reservations that can never become one
    orders_without: int  # orders whose request nobody reserved for
    twice_active: int
    returned_twice: int
    paid_unpaid: int  # orders PAID without money, or money kept of orders that are not
    refunding: int
    passed: int  # offsets that the inventory group has gone past
    accounted: int  # decided, delivered again, or dead
    decided_twice: int
    overdue: int
    deliveries_due: int
    unpublished: int
    gate_owed: int
    most_units: int  # in one purchase, in any sale
    active_units: int
    gate_units: int | None
    behind: dict[str, int] | None  # records by group
    mispriced: int = 0  # orders and payments over something else than price times quantity
    kept_waiting: int = 0  # buyers who may buy again without their units being back, or the other way round
    misplaced: int = 0  # holds, orders and outcomes of another buyer, sale, article or quantity than was decided
    misjudged: int = 0  # refusals whose reason is not true, and decisions that should have been one
    misdirected: int = 0  # messages for another user than the order's
    astray: int = 0  # orders that are not where their history leaves them


class Residual(NamedTuple):
    name: str
    title: str
    residual: int | None
    in_flight: int = 0

    @property
    def state(self) -> State:
        if self.residual is None:
            return State.UNKNOWN
        if not self.residual:
            return State.HOLDS
        return State.IN_FLIGHT if abs(self.residual) <= self.in_flight else State.BROKEN


def residuals(counts: Counts) -> list[Residual]:
    behind = counts.behind or {}
    undecided = behind.get("inventory", 0)
    unread = behind.get("orders", 0) + counts.unpublished
    unsettled = behind.get("inventory.settlement", 0) + counts.unpublished
    gate = None if counts.gate_units is None else counts.gate_units - counts.active_units
    return [
        Residual("I1", "units oversold", counts.oversold),
        Residual("I2", "units that the ledger does not explain", counts.unbalanced),
        Residual("I3", "reservations without an order", counts.reserved - counts.placed, unread),
        Residual("I3", "orders without a reservation", counts.orders_without),
        Residual(
            "I4",
            "units the gate counts otherwise",
            gate,
            (undecided + unsettled + counts.gate_owed) * counts.most_units,
        ),
        Residual("I9", "requests gone past and not accounted for", counts.passed - counts.accounted),
        Residual("I9", "requests decided twice", counts.decided_twice),
        Residual("I9", "requests not decided yet", None if counts.behind is None else undecided, undecided),
        Residual("I12", "users with two active purchases", counts.twice_active),
        Residual("I14", "orders whose money is not as their state says", counts.paid_unpaid, counts.refunding),
        Residual("I15", "units returned twice", counts.returned_twice),
        Residual("I20", "unpaid orders beyond their time and grace", counts.overdue),
        Residual("I21", "messages not told yet", counts.deliveries_due, counts.deliveries_due),
        Residual("I25", "orders and payments at another price", counts.mispriced),
        Residual(
            "I26",
            "buyers not told that they may buy again",
            counts.kept_waiting,
            behind.get("gateway.outcomes", 0) + counts.unpublished,
        ),
        Residual("I27", "purchases of another buyer than decided", counts.misplaced),
        Residual("I28", "refusals for a false reason", counts.misjudged),
        Residual("I30", "messages for another buyer", counts.misdirected),
        Residual("I33", "orders not where their history leaves them", counts.astray),
        Residual("I23", "events not published yet", counts.unpublished, counts.unpublished),
    ]


def worst(found: list[Residual]) -> State:
    states = {each.state for each in found}
    return next((state for state in (State.BROKEN, State.UNKNOWN, State.IN_FLIGHT) if state in states), State.HOLDS)


def as_metrics(found: list[Residual]) -> str:
    """In Prometheus' text format."""
    lines = [
        "# HELP seckill_residual how far two books are apart, by invariant",
        "# TYPE seckill_residual gauge",
        *(_line("seckill_residual", each, each.residual) for each in found if each.residual is not None),
        "# HELP seckill_in_flight how much of it may still come right by itself",
        "# TYPE seckill_in_flight gauge",
        *(_line("seckill_in_flight", each, each.in_flight) for each in found),
        "# HELP seckill_invariants_broken residuals beyond what is in flight",
        "# TYPE seckill_invariants_broken gauge",
        f"seckill_invariants_broken {sum(each.state is State.BROKEN for each in found)}",
    ]
    return "\n".join(lines) + "\n"


def _line(metric: str, each: Residual, value: int | None) -> str:
    return f'{metric}{{invariant="{each.name}",what="{each.title}"}} {value}'
