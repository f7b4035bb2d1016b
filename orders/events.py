"""What orders say: each transition of an order, once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from seckill import envelope as envelopes
from seckill.envelope import BadEnvelope, Envelope, Origin, Upcaster

VERSION = 2


class OrderEvent(StrEnum):
    PLACED = "OrderPlaced"
    PAID = "OrderPaid"
    EXPIRED = "OrderExpired"
    CANCELLED = "OrderCancelled"
    REFUNDED = "OrderRefunded"
    LATE_PAYMENT_REFUNDED = "LatePaymentRefunded"
    NOT_PLACED = "OrderNotPlaced"  # a reservation that can never become an order: its hold is to be released


class OrderChanged(NamedTuple):
    """One event of an order. Amounts are in the smallest coin; times in milliseconds."""

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
    returned_units: int = 0  # OrderRefunded only: so many come back into the sale; the operator says whether

    def envelope(self, cause: UUID | None, origin: Origin | None) -> Envelope:
        body = self._asdict() | {"order_id": str(self.order_id), "request_id": str(self.request_id)}
        del body["event"]
        return envelopes.new(self.event.value, VERSION, body, cause=cause, origin=origin)


def _counted(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Version 1 said only whether the units come back."""
    new = dict(body)
    new["returned_units"] = int(body["quantity"]) if new.pop("return_units", False) else 0
    return new


UPCASTERS: Mapping[int, Upcaster] = {1: _counted}


def read(envelope: Envelope) -> OrderChanged:
    body = envelopes.current(envelope, VERSION, UPCASTERS)
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
        raise BadEnvelope(f"{envelope.type}: no order event: {error!r}") from error
