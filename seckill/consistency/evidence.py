"""Values: everything the report rests on, as plain rows, with what is known of the sources they came from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

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
    request_id: UUID | None
    partition: int | None
    offset: int | None


class Sight(NamedTuple):
    at_ms: int
    took_ms: int
    user_id: str
    request_id: UUID
    status: int
    state: str
    may_buy_again: bool


# ── K: topics ────────────────────────────────────────────────────────────────────────────────────


class Place(NamedTuple):
    partition: int
    offset: int


class Requested(NamedTuple):
    place: Place
    timestamp_ms: int
    request_id: UUID
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
    event_id: UUID
    request_id: UUID
    user_id: str
    decision: str  # or UnitsReleased
    quantity: int


class OrderSaid(NamedTuple):
    place: Place
    timestamp_ms: int
    event_id: UUID
    event: str
    order_id: UUID
    request_id: UUID
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
    cause: UUID
    request_id: UUID | None
    at_ms: int


class Hold(NamedTuple):
    request_id: UUID
    stock_id: int
    sale_id: int
    user_id: str
    quantity: int
    state: str

    @property
    def is_active(self) -> bool:
        return self.state != "released"


class Decided(NamedTuple):
    request_id: UUID
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
    request_id: UUID
    place: Place


class Settled(NamedTuple):
    event_id: UUID
    kind: str
    request_id: UUID
    posted: bool


class Order(NamedTuple):
    id: UUID
    request_id: UUID
    user_id: str
    sale_id: int
    quantity: int
    amount: int
    state: str
    placed_at_ms: int
    pay_before_ms: int


class Transition(NamedTuple):
    order_id: UUID
    before: str
    after: str
    event_id: UUID
    at_ms: int


class ReadDecision(NamedTuple):
    event_id: UUID
    request_id: UUID
    decision: str


class Payment(NamedTuple):
    id: UUID
    order_id: UUID
    amount: int
    state: str
    was_captured: bool
    was_refunded: bool
    opened_at_ms: int


class Delivery(NamedTuple):
    event_id: UUID
    channel: str
    user_id: str
    state: str
    attempts: int
    done_at_ms: int | None


class Outcome(NamedTuple):
    request_id: UUID
    user_id: str
    state: str
    order_id: UUID | None


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
    payment_id: UUID
    amount: int


class SinkLine(NamedTuple):
    at_ms: int
    what: str  # effect, again, refused
    event_id: UUID
    channel: str
    user_id: str


class Gate(NamedTuple):
    """What Redis has of one stock's present epoch; `free` None: nothing is there."""

    stock_id: int
    free: int | None
    granted: dict[UUID, int]


@dataclass(frozen=True)
class Evidence:
    """All of it. Corruptions make copies; indexes are made once for each copy."""

    sources: dict[str, Source]
    taken_at_ms: int
    off: frozenset[str] = frozenset()  # sources the manifest declares off
    faults_planned: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()  # why the run has not drained; empty: it has
    crowd_sales: frozenset[int] = frozenset()

    attempts: list[Attempt] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    requested: list[Requested] = field(default_factory=list)
    decisions_said: list[DecisionSaid] = field(default_factory=list)
    orders_said: list[OrderSaid] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    committed: list[GroupOffset] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)

    sales: list[Sale] = field(default_factory=list)
    stocks: list[Stock] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    redelivered: list[Redelivered] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    gate_owed: list[UUID] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    decisions_read: list[ReadDecision] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    offsets: list[GroupOffset] = field(default_factory=list)
    outbox: dict[str, int] = field(default_factory=dict)  # unpublished events by writer
    dead: list[DeadLetter] = field(default_factory=list)

    provider: list[ProviderLine] = field(default_factory=list)
    sink: list[SinkLine] = field(default_factory=list)
    injected: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def entries(self) -> dict[int, list[Entry]]:
        """The ledger of each stock, by version."""
        found: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.ledger:
            found[entry.stock_id].append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: entry.version)
        return found

    @cached_property
    def entries_of(self) -> dict[UUID, list[Entry]]:
        """The ledger of each request, by version."""
        found: dict[UUID, list[Entry]] = defaultdict(list)
        for entries in self.entries.values():
            for entry in entries:
                if entry.request_id is not None:
                    found[entry.request_id].append(entry)
        return found

    @cached_property
    def decision_of(self) -> dict[UUID, Decided]:
        return {row.request_id: row for row in self.decided}

    @cached_property
    def order_of(self) -> dict[UUID, Order]:
        """By request."""
        return {order.request_id: order for order in self.orders}

    @cached_property
    def order_by_id(self) -> dict[UUID, Order]:
        return {order.id: order for order in self.orders}

    @cached_property
    def first_requested(self) -> dict[UUID, Requested]:
        """The first time each request stands in the log."""
        first: dict[UUID, Requested] = {}
        for said in self.requested:
            known = first.get(said.request_id)
            if known is None or said.came < known.came:
                first[said.request_id] = said
        return first

    @cached_property
    def requested_at(self) -> dict[Place, Requested]:
        return {said.place: said for said in self.requested}

    @cached_property
    def dead_requests(self) -> dict[Place, DeadLetter]:
        """Requests under examination: dead-lettered, not decided."""
        return {
            letter.place: letter
            for letter in self.dead
            if letter.group == "inventory" and letter.topic == "purchase.requests"
        }
