"""Codec: from the counts of one moment to residuals, each with the amount of work in flight that may explain it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ResidualState(StrEnum):
    HOLDS = "holds"
    IN_FLIGHT = "in flight"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class LiveCounts(NamedTuple):
    """One snapshot of Postgres, then the gate, then the ends of the topics. None means that it could not be read."""

    oversold: int  # units reserved or sold beyond the supply
    unbalanced: int  # units by which stock rows differ from the sums of their ledgers
    reserved: int  # decisions RESERVED
    placed: int  # orders, and released reservations without one
    orders_without: int  # orders without a reservation
    twice_active: int
    returned_twice: int
    paid_unpaid: int  # orders PAID without money, or money kept for other orders
    refunding: int
    passed: int  # offsets that the inventory group has passed
    accounted: int  # decisions, redeliveries and dead letters
    decided_twice: int
    overdue: int
    deliveries_due: int
    unpublished: int
    gate_releases_due: int
    most_units: int  # the largest cap of any sale
    active_units: int
    gate_units: int | None
    behind: dict[str, int] | None  # records by group
    mispriced: int = 0  # orders and payments that differ from price times quantity
    kept_waiting: int = 0  # buyers who may buy again although their units are not back, or the reverse
    misplaced: int = 0  # holds, orders and outcomes that differ from the decision
    misjudged: int = 0  # refusals with a false reason, and decisions that should be refusals
    misdirected: int = 0  # messages to a user other than the buyer
    astray: int = 0  # orders whose state differs from their transitions


class Residual(NamedTuple):
    name: str
    title: str
    residual: int | None
    in_flight: int = 0

    @property
    def state(self) -> ResidualState:
        if self.residual is None:
            return ResidualState.UNKNOWN
        if not self.residual:
            return ResidualState.HOLDS
        return ResidualState.IN_FLIGHT if abs(self.residual) <= self.in_flight else ResidualState.BROKEN


def residuals(counts: LiveCounts) -> list[Residual]:
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
            "units that gate and ledger count differently",
            gate,
            (undecided + unsettled + counts.gate_releases_due) * counts.most_units,
        ),
        Residual("I9", "requests skipped without a decision", counts.passed - counts.accounted),
        Residual("I9", "requests decided twice", counts.decided_twice),
        Residual("I9", "requests not decided yet", None if counts.behind is None else undecided, undecided),
        Residual("I12", "users with two active purchases", counts.twice_active),
        Residual("I14", "orders whose money does not match their state", counts.paid_unpaid, counts.refunding),
        Residual("I15", "units returned twice", counts.returned_twice),
        Residual("I20", "unpaid orders past their deadline", counts.overdue),
        Residual("I21", "messages not delivered yet", counts.deliveries_due, counts.deliveries_due),
        Residual("I25", "orders and payments at a wrong price", counts.mispriced),
        Residual(
            "I26",
            "buyers with a wrong right to buy again",
            counts.kept_waiting,
            behind.get("gateway.outcomes", 0) + counts.unpublished,
        ),
        Residual("I27", "purchases assigned to another buyer", counts.misplaced),
        Residual("I28", "refusals with a false reason", counts.misjudged),
        Residual("I30", "messages to another buyer", counts.misdirected),
        Residual("I33", "orders whose state contradicts their history", counts.astray),
        Residual("I23", "events not published yet", counts.unpublished, counts.unpublished),
    ]


def worst_state(found: list[Residual]) -> ResidualState:
    states = {each.state for each in found}
    return next(
        (state for state in (ResidualState.BROKEN, ResidualState.UNKNOWN, ResidualState.IN_FLIGHT) if state in states),
        ResidualState.HOLDS,
    )


def as_metrics(found: list[Residual]) -> str:
    """In the text format of Prometheus."""
    lines = [
        "# HELP seckill_residual difference between two counts that should be equal, by invariant",
        "# TYPE seckill_residual gauge",
        *(_line("seckill_residual", each, each.residual) for each in found if each.residual is not None),
        "# HELP seckill_in_flight part of the residual that work in flight may explain",
        "# TYPE seckill_in_flight gauge",
        *(_line("seckill_in_flight", each, each.in_flight) for each in found),
        "# HELP seckill_invariants_broken residuals larger than the work in flight",
        "# TYPE seckill_invariants_broken gauge",
        f"seckill_invariants_broken {sum(each.state is ResidualState.BROKEN for each in found)}",
    ]
    return "\n".join(lines) + "\n"


def _line(metric: str, each: Residual, value: int | None) -> str:
    return f'{metric}{{invariant="{each.name}",what="{each.title}"}} {value}'
