"""Values: the rows of the database that the report uses. What topics, crowd and sinks recorded is re-exported here."""

from __future__ import annotations

from typing import NamedTuple

from seckill.messaging.record_position import RecordPosition
from seckill.report.identity import Id
from seckill.report.observations import (
    REQUESTS,
    Attempt,
    DecisionEvent,
    OrderEvent,
    OtherCall,
    PartitionLog,
    Poll,
    ProviderLine,
    RequestRecord,
    SinkLine,
    Unreadable,
)

__all__ = [
    "CHANNELS", "NOTIFIED_EVENTS", "REFUSALS", "REQUESTS", "RESERVED", "Attempt", "Callback", "ConsumedDecision",
    "DeadLetter", "Decision", "DecisionEvent", "Delivery", "GateState", "GroupOffset", "Hold", "LedgerEntry",
    "OperatorAction", "Order", "OrderEvent", "OtherCall", "Outcome", "PartitionLog", "Payment", "Poll", "ProviderLine",
    "RecordPosition", "Redelivery", "RequestRecord", "Sale", "Settlement", "SinkLine", "Stock", "Transition",
    "Unreadable",
]  # fmt: skip

REFUSALS = frozenset({"SOLD_OUT", "DUPLICATE", "LIMIT_REACHED", "CLOSED", "TOO_LATE", "INVALID"})
RESERVED = "RESERVED"
NOTIFIED_EVENTS = frozenset(
    {"OrderPlaced", "OrderPaid", "OrderExpired", "OrderCancelled", "OrderRefunded", "LatePaymentRefunded"}
)
"""Order events about which the buyer gets a message."""
CHANNELS = ("sms", "email", "push")


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
    cap: int | None = None  # units allowed in one purchase
    gate_retired: bool = False  # the sale is over and its gate is no longer used


class LedgerEntry(NamedTuple):
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
    origin: RecordPosition | None = None

    @property
    def is_active(self) -> bool:
        return self.state != "released"


class Decision(NamedTuple):
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
    position: RecordPosition


class Redelivery(NamedTuple):
    request_id: Id
    position: RecordPosition


class Settlement(NamedTuple):
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
    cause: Id | None = None  # id of the decision event
    origin: RecordPosition | None = None


class Transition(NamedTuple):
    order_id: Id
    before: str
    after: str
    event_id: Id
    at_ms: int


class ConsumedDecision(NamedTuple):
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
    late: bool = False  # captured after the order had ended


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


class OperatorAction(NamedTuple):
    """What an operator did, from the audit trail."""

    at_ms: int
    verb: str  # "sale close", "letters replay", ...
    target: str
    arguments: dict[str, object]
    result: str


class Callback(NamedTuple):
    """A callback from the payment provider; redeliveries of the same callback count once."""

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
    position: RecordPosition
    state: str
    reason: str
    died_at_ms: int


class GateState(NamedTuple):
    """The gate's keys for the current epoch of one stock. `free` is None if Redis has no such key."""

    stock_id: int
    free: int | None
    granted: dict[Id, int]


class Silence(NamedTuple):
    """A time in which the report service heard nothing from a process. `ended_at_ms` is None if it was not over."""

    name: str
    kind: str
    began_at_ms: int
    ended_at_ms: int | None
    ended_by: str
