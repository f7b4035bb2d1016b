"""Money: attempts, captures, refunds. A payment that comes too late never moves the order: it is refunded, once."""

from __future__ import annotations

import logging
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from orders.events import OrderEvent
from orders.lifecycle import State, changed, move
from orders.models import Callback, Order, Payment
from orders.payments import provider
from orders.payments.provider import ProviderDown
from orders.placing import NAMESPACE
from seckill.envelope import Origin
from seckill.streams.outbox import Event, publish
from seckill.topics import ORDER_EVENTS

log = logging.getLogger(__name__)


def begin(order: Order) -> Payment | None:
    """The open attempt of the order: the one there is, or a new one. None: there is nothing to pay any more."""
    with transaction.atomic():
        pending = Order.objects.select_for_update().filter(id=order.id, state=State.PENDING_PAYMENT).first()
        if pending is None or pending.pay_before <= timezone.now():
            return None
        payment = pending.payments.filter(state="open").first()
        if payment is None:
            number = pending.payments.count()
            payment = Payment.objects.create(
                id=uuid5(NAMESPACE, f"payment {number} of {order.id}"), order=pending, amount=pending.amount
            )
    answer = provider.open_payment(payment.id, order.id, payment.amount)
    Payment.objects.filter(id=payment.id).update(provider_reference=answer.reference)
    return payment


def told(callback_id: str, payment_id: UUID, kind: str) -> bool:
    """A genuine callback; False: it is of no payment of ours. Coming again changes nothing but the count."""
    with transaction.atomic():
        if not Payment.objects.filter(id=payment_id).exists():
            return False
        _, fresh = Callback.objects.get_or_create(
            callback_id=callback_id, defaults={"payment_id": payment_id, "kind": kind}
        )
        if not fresh:
            Callback.objects.filter(callback_id=callback_id).update(received=F("received") + 1)
        if kind == "captured":
            capture(payment_id)
        elif kind == "refunded":
            refunded(payment_id)
    return True


def capture(payment_id: UUID) -> None:
    """The provider has the money. The order becomes PAID if it still waits; else the money goes back."""
    captured = Payment.objects.filter(id=payment_id, state__in=("open", "voided"))
    if captured.update(state="captured", captured_at=timezone.now()) != 1:
        return
    payment = Payment.objects.get(id=payment_id)
    if move(payment.order_id, State.PENDING_PAYMENT, State.PAID) is None:
        Payment.objects.filter(id=payment_id, state="captured").update(state="refunding")
        log.info("late payment", extra={"order": str(payment.order_id), "payment": str(payment_id)})


def refunded(payment_id: UUID) -> None:
    """The provider has given the money back."""
    done = Payment.objects.filter(id=payment_id, state="refunding")
    if done.update(state="refunded", refunded_at=timezone.now()) != 1:
        return
    order = Payment.objects.select_related("order").get(id=payment_id).order
    if order.state in (State.EXPIRED, State.CANCELLED, State.PAID):
        event = changed(order, OrderEvent.LATE_PAYMENT_REFUNDED, timezone.now())
        origin = Origin(*order.origin) if order.origin else None
        publish([Event(ORDER_EVENTS, order.user_id, event.envelope(order.cause, origin))])


def refund_due() -> int:
    """Ask for every refund that is owed, again and again until the provider says it is done; how many were."""
    done = 0
    for payment_id in Payment.objects.filter(state="refunding").values_list("id", flat=True)[:200]:
        try:
            answer = provider.refund(payment_id)
        except ProviderDown as fault:
            log.warning("refund waits", extra={"payment": str(payment_id), "reason": str(fault)})
            continue
        if answer.state == "refunded":
            with transaction.atomic():
                refunded(payment_id)
            done += 1
    return done


def close_attempts(order_id: UUID) -> bool:
    """Before an order ends unpaid: void its open attempts. False: one of them was captured, so it does not end.

    `ProviderDown` if the provider does not say: then nobody knows, and the order waits.
    """
    free = True
    for payment in Payment.objects.filter(order_id=order_id, state="open"):
        answer = provider.void(payment.id)
        if answer.state == "captured":
            with transaction.atomic():
                capture(payment.id)
            free = False
        else:
            Payment.objects.filter(id=payment.id, state="open").update(state="voided")
    return free
