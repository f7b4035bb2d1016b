"""Values: what the simulated buyers, the topics and the outside world recorded.

Fields with a default were added later than the others. They are None or empty where a source does not provide them.
"""

from __future__ import annotations

from typing import NamedTuple

from seckill.messaging.record_position import RecordPosition
from seckill.report.identity import Id

REQUESTS = "purchase.requests"


# ── the crowd's log ──────────────────────────────────────────────────────────────────────────────


class Attempt(NamedTuple):
    """One POST of a purchase and its answer. `status` 0 means that no answer arrived."""

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
    problem: str = ""  # the problem type without its URL prefix
    ticket: str | None = None  # fingerprint of the ticket; empty if none was sent, None if the log does not say
    address: str = ""
    stock_version: int | None = None  # the version on which a "sold-out" answer is based


class Poll(NamedTuple):
    """One poll of a purchase's status and the state that the buyer was shown."""

    at_ms: int
    took_ms: int
    user_id: str
    request_id: Id
    status: int
    state: str
    may_buy_again: bool
    order_id: Id | None = None


class OtherCall(NamedTuple):
    """Any other call: session, sale, ticket, pay or cancel. Successful session and sale calls are not kept."""

    at_ms: int
    took_ms: int
    what: str
    user_id: str
    sale_id: int | None
    order_id: Id | None
    status: int
    problem: str = ""
    ticket: str = ""  # fingerprint of the ticket that was issued
    expires_at_ms: int | None = None


# ── topics ───────────────────────────────────────────────────────────────────────────────────────


class RequestRecord(NamedTuple):
    position: RecordPosition
    timestamp_ms: int
    request_id: Id
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    admitted_at_ms: int
    deadline_ms: int

    @property
    def arrival(self) -> tuple[int, int]:
        """Sorts requests by the log's clock, then by offset."""
        return self.timestamp_ms, self.position.offset


class DecisionEvent(NamedTuple):
    position: RecordPosition
    timestamp_ms: int
    event_id: Id
    request_id: Id
    user_id: str
    decision: str  # a decision, or UnitsReleased
    quantity: int
    sale_id: int | None = None
    sku: str = ""
    unit_price: int | None = None  # decisions only
    stock_version: int | None = None
    decided_at_ms: int | None = None  # decisions only
    reason: str = ""  # UnitsReleased only
    cause: Id | None = None
    origin: RecordPosition | None = None


class OrderEvent(NamedTuple):
    position: RecordPosition
    timestamp_ms: int
    event_id: Id
    event: str
    order_id: Id
    request_id: Id
    user_id: str
    sale_id: int | None = None
    sku: str = ""
    quantity: int | None = None
    amount: int | None = None
    at_ms: int | None = None
    pay_before_ms: int | None = None
    returned_units: int | None = None
    cause: Id | None = None
    origin: RecordPosition | None = None


class Unreadable(NamedTuple):
    """A record that the report could not decode."""

    topic: str
    position: RecordPosition
    reason: str


class PartitionLog(NamedTuple):
    """How much of one partition was read: offsets from `start` up to but not including `cut`."""

    topic: str
    partition: int
    start: int
    cut: int
    records: int


# ── the outside world ────────────────────────────────────────────────────────────────────────────


class ProviderLine(NamedTuple):
    at_ms: int
    what: str  # opened, captured, voided, refunded
    payment_id: Id
    amount: int
    order_id: Id | None = None


class SinkLine(NamedTuple):
    at_ms: int
    what: str  # effect, again, refused
    event_id: Id
    channel: str
    user_id: str
    trace_id: str = ""  # from the W3C trace context that came with the message
    text: str = ""
