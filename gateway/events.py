"""What the gateway says. Other packages import this module of the gateway and no other."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from seckill.envelope import BadEnvelope, Envelope

PURCHASE_REQUESTED = "PurchaseRequested"
VERSION = 1

MOST_UNITS = 1_000_000


class PurchaseRequested(NamedTuple):
    """A buyer was admitted. Times are milliseconds of the one clock (Redis TIME)."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    admitted_at_ms: int
    deadline_ms: int

    def envelope(self) -> Envelope:
        """The event id is the request id: the same request is the same event, however often it is sent."""
        body = dict(zip(self._fields, (str(self.request_id), *self[1:]), strict=True))
        return Envelope(self.request_id, PURCHASE_REQUESTED, VERSION, body)


def read(envelope: Envelope) -> PurchaseRequested:
    if (envelope.type, envelope.version) != (PURCHASE_REQUESTED, VERSION):
        raise BadEnvelope(f"{envelope.type} {envelope.version} is no purchase request")
    body = envelope.body
    try:
        requested = PurchaseRequested(
            envelope.event_id,
            _text(body["user_id"]),
            _number(body["sale_id"]),
            _text(body["sku"]),
            _number(body["quantity"]),
            _number(body["admitted_at_ms"]),
            _number(body["deadline_ms"]),
        )
        is_same = body["request_id"] == str(envelope.event_id)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"no purchase request: {error!r}") from error
    if not is_same:
        raise BadEnvelope("the event id is not the request id")
    return requested


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise ValueError(f"{value!r} is no name")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value
