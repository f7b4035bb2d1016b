"""Place an order for each reservation, once. The time to pay starts now.

A reservation whose decision was discarded gets an order in state NOT_PLACED, so that no copy of the decision can place
one later.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid5

from django.conf import settings

from inventory.events import Decision, PurchaseDecided
from orders import batch_sql
from orders.events import OrderEvent
from orders.lifecycle import record_transitions
from orders.models import Order
from orders.states import OrderState
from seckill.messaging.envelope import Envelope

NAMESPACE = UUID("0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77")
"""Of the ids that are derived from others, so that repeating a step makes the same row."""


def order_id_of(request_id: UUID) -> UUID:
    return uuid5(NAMESPACE, str(request_id))


def payment_id_of(order_id: UUID, number: int) -> UUID:
    return uuid5(NAMESPACE, f"payment {number} of {order_id}")


def place_orders(decisions: Sequence[tuple[Envelope, PurchaseDecided]]) -> list[Order]:
    """The new orders. Rejections and decisions that were handled before make none. Inside a transaction."""
    return _insert_orders(decisions, OrderState.PENDING_PAYMENT, OrderEvent.PLACED, settings.ENVIRONMENT.payment_ttl_s)


def record_unplaced_orders(decisions: Sequence[tuple[Envelope, PurchaseDecided]]) -> list[Order]:
    """For discarded decisions, in the transaction that discards them. The event makes inventory release the units."""
    return _insert_orders(decisions, OrderState.NOT_PLACED, OrderEvent.NOT_PLACED, 0)


def _insert_orders(
    decisions: Sequence[tuple[Envelope, PurchaseDecided]], state: OrderState, event: OrderEvent, ttl_s: int
) -> list[Order]:
    if not decisions:
        return []
    read = [(envelope.event_id, decided.request_id, decided.decision.value) for envelope, decided in decisions]
    fresh = batch_sql.insert_read_decisions(read)
    granted: dict[UUID, Order] = {}
    for envelope, decided in decisions:
        if envelope.event_id in fresh and decided.decision is Decision.RESERVED:
            granted.setdefault(decided.request_id, _build_order(envelope, decided, state))
    if not granted:
        return []
    new = batch_sql.insert_orders(list(granted.values()), ttl_s)
    if new:
        record_transitions(new, event, None, state, new[0].placed_at)
    return new


def _build_order(envelope: Envelope, decided: PurchaseDecided, state: OrderState) -> Order:
    return Order(
        id=order_id_of(decided.request_id),
        request_id=decided.request_id,
        user_id=decided.user_id,
        sale_id=decided.sale_id,
        sku=decided.sku,
        quantity=decided.quantity,
        amount=decided.quantity * decided.unit_price if state is OrderState.PENDING_PAYMENT else 0,
        state=state,
        origin=list(envelope.origin) if envelope.origin else None,
        cause=envelope.event_id,
    )
