"""Values: the plain rows the report rests on, and what is known of the sources they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from seckill.consistency.identity import Id
from seckill.consistency.said import (
    REQUESTS,
    Attempt,
    Called,
    DecisionSaid,
    Log,
    OrderSaid,
    Place,
    ProviderLine,
    Requested,
    Sight,
    SinkLine,
    Unreadable,
)

__all__ = [
    "CHANNELS", "REFUSALS", "REQUESTS", "RESERVED", "SOURCES", "TOLD", "Attempt", "Callback", "Called", "DeadLetter",
    "Decided", "DecisionSaid", "Delivery", "Entry", "Gate", "GroupOffset", "Hold", "Log", "Order", "OrderSaid",
    "Outcome", "Payment", "Place", "ProviderLine", "ReadDecision", "Redelivered", "Requested", "Sale", "Settled",
    "Sight", "SinkLine", "Source", "Stock", "Transition", "Unreadable", "Verb",
]  # fmt: skip

SOURCES = {
    "C": "what the crowd was told",
    "K": "topics, from the start to the cut",
    "R": "the gate in Redis",
    "L": "sales, stock and ledger",
    "O": "orders, inbox, outbox, offsets",
    "P": "payments and the provider's log",
    "N": "deliveries and the sinks' log",
    "G": "offsets committed to the broker",
    "S": "Spark's tables",
    "F": "faults that were injected or observed",
}

REFUSALS = frozenset({"SOLD_OUT", "DUPLICATE", "LIMIT_REACHED", "CLOSED", "TOO_LATE", "INVALID"})
RESERVED = "RESERVED"
TOLD = frozenset({"OrderPlaced", "OrderPaid", "OrderExpired", "OrderCancelled", "OrderRefunded", "LatePaymentRefunded"})
"""Order events a buyer gets a message about."""
CHANNELS = ("sms", "email", "push")


@dataclass(frozen=True, slots=True)
class Source:
    """`faults`: why it is not whole; none and a count means that it was read to its end."""

    letter: str
    counts: dict[str, int]
    faults: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.faults and any(self.counts.values())


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────


class Sale(NamedTuple):
    id: int
    state: str
    opens_at_ms: int
    closes_at_ms: int


class Stock(NamedTuple):
    id: int
    sale_id: int
    sku: str
    declared: int
    available: int
    reserved: int
    sold: int
    version: int
    gate_epoch: int
    unit_price: int | None = None
    cap: int | None = None  # most units in one purchase
    gate_retired: bool = False  # its sale is over, and nobody asks its gate any more


class Entry(NamedTuple):
    stock_id: int
    version: int
    debit: str
    credit: str
    units: int
    kind: str
    cause: Id
    request_id: Id | None
    at_ms: int


class Hold(NamedTuple):
    request_id: Id
    stock_id: int
    sale_id: int
    user_id: str
    quantity: int
    state: str
    origin: Place | None = None

    @property
    def is_active(self) -> bool:
        return self.state != "released"


class Decided(NamedTuple):
    request_id: Id
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    decision: str
    stock_version: int
    decided_at_ms: int
    admitted_at_ms: int
    deadline_ms: int
    place: Place


class Redelivered(NamedTuple):
    request_id: Id
    place: Place


class Settled(NamedTuple):
    event_id: Id
    kind: str
    request_id: Id
    posted: bool


class Order(NamedTuple):
    id: Id
    request_id: Id
    user_id: str
    sale_id: int
    quantity: int
    amount: int
    state: str
    placed_at_ms: int
    pay_before_ms: int
    sku: str = ""
    cause: Id | None = None  # the decision it rests on
    origin: Place | None = None


class Transition(NamedTuple):
    order_id: Id
    before: str
    after: str
    event_id: Id
    at_ms: int


class ReadDecision(NamedTuple):
    event_id: Id
    request_id: Id
    decision: str


class Payment(NamedTuple):
    id: Id
    order_id: Id
    amount: int
    state: str
    was_captured: bool
    was_refunded: bool
    opened_at_ms: int
    late: bool = False  # captured when the order had ended


class Delivery(NamedTuple):
    event_id: Id
    channel: str
    user_id: str
    state: str
    attempts: int
    done_at_ms: int | None
    text: str = ""


class Outcome(NamedTuple):
    request_id: Id
    user_id: str
    state: str
    order_id: Id | None
    sale_id: int | None = None
    pay_before_ms: int | None = None
    may_buy_again: bool | None = None


class Verb(NamedTuple):
    """What an operator did, from the audit trail."""

    at_ms: int
    verb: str  # "sale close", "letters replay", ...
    target: str
    arguments: dict[str, object]
    result: str


class Callback(NamedTuple):
    """What the provider has called back about, once by its id."""

    callback_id: str
    payment_id: Id
    kind: str  # captured, refunded


class GroupOffset(NamedTuple):
    group: str
    topic: str
    partition: int
    next_offset: int


class DeadLetter(NamedTuple):
    group: str
    topic: str
    place: Place
    state: str
    reason: str
    died_at_ms: int


class Gate(NamedTuple):
    """What Redis has of one stock's present epoch; `free` None: nothing is there."""

    stock_id: int
    free: int | None
    granted: dict[Id, int]
