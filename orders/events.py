"""Events that orders publishes: each change of an order's state, once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from seckill.messaging.envelope import BadEnvelope, Envelope, new_envelope
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.versions import Upcaster, upgrade_body

VERSION = 2


class OrderEvent(StrEnum):
    PLACED = "OrderPlaced"
    PAID = "OrderPaid"
    EXPIRED = "OrderExpired"
    CANCELLED = "OrderCancelled"
    REFUNDED = "OrderRefunded"
    LATE_PAYMENT_REFUNDED = "LatePaymentRefunded"
    NOT_PLACED = "OrderNotPlaced"  # the reservation can never become an order, so inventory releases its hold


class OrderChanged(NamedTuple):
    """Amounts are in the smallest coin, times in milliseconds."""

    event: OrderEvent
    order_id: UUID
    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    amount: int
    at_ms: int
    pay_before_ms: int
    returned_units: int = 0  # OrderRefunded only: the units that go back into the sale, as the operator chose

    def envelope(self, cause: UUID | None, origin: RecordPosition | None) -> Envelope:
        body = self._asdict() | {"order_id": str(self.order_id), "request_id": str(self.request_id)}
        del body["event"]
        return new_envelope(self.event.value, VERSION, body, cause=cause, origin=origin)


def _upcast_returned_units(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 only said whether all units go back."""
    new = dict(body)
    new["returned_units"] = int(body["quantity"]) if new.pop("return_units", False) else 0
    return new


UPCASTERS: Mapping[int, Upcaster] = {1: _upcast_returned_units}


def parse_event(envelope: Envelope) -> OrderChanged:
    body = upgrade_body(envelope.type, envelope.version, envelope.body, newest=VERSION, upcasters=UPCASTERS)
    try:
        return OrderChanged(
            OrderEvent(envelope.type),
            UUID(body["order_id"]),
            UUID(body["request_id"]),
            str(body["user_id"]),
            int(body["sale_id"]),
            str(body["sku"]),
            int(body["quantity"]),
            int(body["amount"]),
            int(body["at_ms"]),
            int(body["pay_before_ms"]),
            int(body["returned_units"]),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"not a valid order event, {envelope.type}: {error!r}") from error
