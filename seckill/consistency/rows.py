"""Values: the plain rows the report rests on, and what is known of the sources they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from seckill.consistency.identity import Id

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
    "F": "faults that were injected",
}

REFUSALS = frozenset({"SOLD_OUT", "DUPLICATE", "LIMIT_REACHED", "CLOSED", "TOO_LATE", "INVALID"})
RESERVED = "RESERVED"
TOLD = frozenset({"OrderPlaced", "OrderPaid", "OrderExpired", "OrderCancelled", "OrderRefunded", "LatePaymentRefunded"})
"""Order events a buyer gets a message about."""
CHANNELS = ("sms", "email", "push")
REQUESTS = "purchase.requests"


@dataclass(frozen=True, slots=True)
class Source:
    """`faults`: why it is not whole; none and a count means that it was read to its end."""

    letter: str
    counts: dict[str, int]
    faults: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.faults and any(self.counts.values())


# ── C: the crowd's log ───────────────────────────────────────────────────────────────────────────


class Attempt(NamedTuple):
    """`status` 0: no answer came."""

    at_ms: int
    took_ms: int
    user_id: str
    key: str
    sale_id: int
    quantity: int
    status: int
    request_id: Id | None
    partition: int | None
    offset: int | None
    topic: str = REQUESTS


class Sight(NamedTuple):
    at_ms: int
    took_ms: int
    user_id: str
    request_id: Id
    status: int
    state: str
    may_buy_again: bool


# ── K: topics ────────────────────────────────────────────────────────────────────────────────────


class Place(NamedTuple):
    partition: int
    offset: int
    topic: str = REQUESTS  # they stand in one of two


class Requested(NamedTuple):
    place: Place
    timestamp_ms: int
    request_id: Id
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    admitted_at_ms: int
    deadline_ms: int

    @property
    def came(self) -> tuple[int, int]:
        """Its turn: by the log's clock, and by offset where that does not tell."""
        return self.timestamp_ms, self.place.offset


class DecisionSaid(NamedTuple):
    place: Place
    timestamp_ms: int
    event_id: Id
    request_id: Id
    user_id: str
    decision: str  # or UnitsReleased
    quantity: int


class OrderSaid(NamedTuple):
    place: Place
    timestamp_ms: int
    event_id: Id
    event: str
    order_id: Id
    request_id: Id
    user_id: str


class Unreadable(NamedTuple):
    topic: str
    place: Place
    reason: str


class Log(NamedTuple):
    """One partition of a topic, as it was read."""

    topic: str
    partition: int
    start: int
    cut: int
    records: int


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


class Delivery(NamedTuple):
    event_id: Id
    channel: str
    user_id: str
    state: str
    attempts: int
    done_at_ms: int | None


class Outcome(NamedTuple):
    request_id: Id
    user_id: str
    state: str
    order_id: Id | None


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


# ── the outside world ────────────────────────────────────────────────────────────────────────────


class ProviderLine(NamedTuple):
    at_ms: int
    what: str  # opened, captured, voided, refunded
    payment_id: Id
    amount: int


class SinkLine(NamedTuple):
    at_ms: int
    what: str  # effect, again, refused
    event_id: Id
    channel: str
    user_id: str
    trace_id: str = ""  # of the W3C context it came with


class Gate(NamedTuple):
    """What Redis has of one stock's present epoch; `free` None: nothing is there."""

    stock_id: int
    free: int | None
    granted: dict[Id, int]
