"""From a reservation to an order: once for each request. The time to pay begins now."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid5

from django.conf import settings
from django.utils import timezone

from inventory.events import Decision, PurchaseDecided
from orders.events import OrderEvent
from orders.lifecycle import State, announce
from orders.models import Order, ReadDecision
from seckill.envelope import Envelope

NAMESPACE = UUID("0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77")


def order_id_of(request_id: UUID) -> UUID:
    return uuid5(NAMESPACE, str(request_id))


def place(envelope: Envelope, decided: PurchaseDecided) -> bool:
    """Inside the transaction of the consume loop; False: this decision was read before, or grants nothing."""
    _, fresh = ReadDecision.objects.get_or_create(
        event_id=envelope.event_id,
        defaults={"request_id": decided.request_id, "decision": decided.decision.value},
    )
    if not fresh or decided.decision is not Decision.RESERVED:
        return False
    now = timezone.now()
    order, made = Order.objects.get_or_create(
        id=order_id_of(decided.request_id),
        defaults={
            "request_id": decided.request_id,
            "user_id": decided.user_id,
            "sale_id": decided.sale_id,
            "sku": decided.sku,
            "quantity": decided.quantity,
            "amount": decided.quantity * decided.unit_price,
            "state": State.PENDING_PAYMENT,
            "placed_at": now,
            "pay_before": now + timedelta(seconds=settings.ENVIRONMENT.payment_ttl_s),
            "origin": list(envelope.origin) if envelope.origin else None,
            "cause": envelope.event_id,
        },
    )
    if made:
        announce(order, OrderEvent.PLACED, None, State.PENDING_PAYMENT, now, cause=envelope.event_id)
    return made
