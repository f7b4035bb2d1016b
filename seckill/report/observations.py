"""Values: what was said and seen: by the crowd, in the topics, and by the outside world.

A field with a default came later than the others; None or empty where a source did not say.
"""

from __future__ import annotations

from typing import NamedTuple

from seckill.consistency.identity import Id

REQUESTS = "purchase.requests"


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
    problem: str = ""  # the kind of refusal, without its address
    ticket: str | None = None  # a fingerprint of the ticket sent with it; empty: none was; None: not logged
    address: str = ""
    stock_version: int | None = None  # of the stock a "sold-out" rests on


class Sight(NamedTuple):
    at_ms: int
    took_ms: int
    user_id: str
    request_id: Id
    status: int
    state: str
    may_buy_again: bool
    order_id: Id | None = None


class Called(NamedTuple):
    """A call beside purchases and polls: session, sale, ticket, pay, cancel. Of sessions and sales only refusals."""

    at_ms: int
    took_ms: int
    what: str
    user_id: str
    sale_id: int | None
    order_id: Id | None
    status: int
    problem: str = ""
    ticket: str = ""  # a fingerprint of the ticket that was given
    expires_at_ms: int | None = None


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
    sale_id: int | None = None
    sku: str = ""
    unit_price: int | None = None  # of a decision only
    stock_version: int | None = None
    decided_at_ms: int | None = None  # of a decision only
    reason: str = ""  # of UnitsReleased only
    cause: Id | None = None
    origin: Place | None = None


class OrderSaid(NamedTuple):
    place: Place
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
    origin: Place | None = None


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
    trace_id: str = ""  # of the W3C context it came with
    text: str = ""
