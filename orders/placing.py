"""From reservations to orders: once for each request. The time to pay begins now."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid5

from django.conf import settings

from inventory.events import Decision, PurchaseDecided
from orders import rows
from orders.events import OrderEvent
from orders.lifecycle import State, announce
from orders.models import Order
from seckill.envelope import Envelope

NAMESPACE = UUID("0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77")


def order_id_of(request_id: UUID) -> UUID:
    return uuid5(NAMESPACE, str(request_id))


def place(decisions: Sequence[tuple[Envelope, PurchaseDecided]]) -> list[Order]:
    """Inside the transaction of the consume loop. The new orders: a decision that was read before, and one that grants
    nothing, makes none."""
    if not decisions:
        return []
    said = [(envelope.event_id, decided.request_id, decided.decision.value) for envelope, decided in decisions]
    fresh = rows.read(said)
    granted: dict[UUID, Order] = {}
    for envelope, decided in decisions:
        if envelope.event_id in fresh and decided.decision is Decision.RESERVED:
            granted.setdefault(decided.request_id, _order(envelope, decided))
    if not granted:
        return []
    made = rows.place(list(granted.values()), settings.ENVIRONMENT.payment_ttl_s)
    if made:
        announce(made, OrderEvent.PLACED, None, State.PENDING_PAYMENT, made[0].placed_at)
    return made


def _order(envelope: Envelope, decided: PurchaseDecided) -> Order:
    return Order(
        id=order_id_of(decided.request_id),
        request_id=decided.request_id,
        user_id=decided.user_id,
        sale_id=decided.sale_id,
        sku=decided.sku,
        quantity=decided.quantity,
        amount=decided.quantity * decided.unit_price,
        state=State.PENDING_PAYMENT,
        origin=list(envelope.origin) if envelope.origin else None,
        cause=envelope.event_id,
    )
