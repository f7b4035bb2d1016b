"""From reservations to orders: once for each request. The time to pay begins now; or there will never be one."""

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
    return _write(decisions, State.PENDING_PAYMENT, OrderEvent.PLACED, settings.ENVIRONMENT.payment_ttl_s)


def give_up(decisions: Sequence[tuple[Envelope, PurchaseDecided]]) -> list[Order]:
    """Decisions that will never be worked on, in the transaction that gives them up. Their reservations have ended: the
    event says so, inventory takes the units back, and a copy of the decision that comes later finds it read."""
    return _write(decisions, State.NOT_PLACED, OrderEvent.NOT_PLACED, 0)


def _write(
    decisions: Sequence[tuple[Envelope, PurchaseDecided]], state: State, event: OrderEvent, ttl_s: int
) -> list[Order]:
    if not decisions:
        return []
    said = [(envelope.event_id, decided.request_id, decided.decision.value) for envelope, decided in decisions]
    fresh = rows.read(said)
    granted: dict[UUID, Order] = {}
    for envelope, decided in decisions:
        if envelope.event_id in fresh and decided.decision is Decision.RESERVED:
            granted.setdefault(decided.request_id, _order(envelope, decided, state))
    if not granted:
        return []
    made = rows.place(list(granted.values()), ttl_s)
    if made:
        announce(made, event, None, state, made[0].placed_at)
    return made


def _order(envelope: Envelope, decided: PurchaseDecided, state: State) -> Order:
    return Order(
        id=order_id_of(decided.request_id),
        request_id=decided.request_id,
        user_id=decided.user_id,
        sale_id=decided.sale_id,
        sku=decided.sku,
        quantity=decided.quantity,
        amount=decided.quantity * decided.unit_price if state is State.PENDING_PAYMENT else 0,
        state=state,
        origin=list(envelope.origin) if envelope.origin else None,
        cause=envelope.event_id,
    )
