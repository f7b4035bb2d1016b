"""Money coming in: attempts and captures. A payment that comes too late never moves the order: it goes back, once."""

from __future__ import annotations

import logging
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from orders import refunding
from orders.lifecycle import State, move
from orders.models import Callback, Order, Payment
from orders.payments import provider
from orders.placing import NAMESPACE

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 20
"""Of one order; each is a row here and there."""


def begin(order: Order) -> Payment | None:
    """The open attempt of the order: the one there is, or a new one. None: there is nothing to pay any more.

    The row is committed before the provider hears of it: so nothing there is unknown here. An attempt that has ended
    there, and we had not heard of it, is followed by the next one.
    """
    while (payment := _attempt(order.id)) is not None:
        answer = provider.open_payment(payment.id, order.id, payment.amount)
        if answer.state == "voided":
            Payment.objects.filter(id=payment.id, state="open").update(state="voided")
            continue
        if answer.state == "captured":
            with transaction.atomic():
                capture(payment.id)
        Payment.objects.filter(id=payment.id).update(provider_reference=answer.reference)
        return payment
    return None


def _attempt(order_id: UUID) -> Payment | None:
    with transaction.atomic():
        waiting = Order.objects.select_for_update().filter(
            id=order_id, state=State.PENDING_PAYMENT, pay_before__gt=Now()
        )
        order = waiting.first()
        if order is None:
            return None
        number = order.payments.count()
        payment = order.payments.filter(state="open").first()
        if payment is None and number < MOST_ATTEMPTS:
            payment = Payment.objects.create(
                id=uuid5(NAMESPACE, f"payment {number} of {order.id}"), order=order, amount=order.amount
            )
        return payment


_SETTLED_BY = {"captured": ("open", "voided"), "refunded": ("refunding",)}
"""A callback of this kind changes a payment in these states of ours."""
_SAID = {"captured": ("captured", "refunded"), "refunded": ("refunded",)}
"""What the provider says of the payment if the callback is true; it may have gone on since."""


def is_confirmed(payment_id: UUID, kind: str) -> bool:
    """Does the provider itself say what a callback says in its name? It is asked only where the callback would change
    something, so repeated ones cost no call. A stolen callback key alone makes no order paid. `ProviderDown`: it does
    not answer, so the callback has to come again."""
    states = _SETTLED_BY.get(kind, ())
    if not Payment.objects.filter(id=payment_id, state__in=states).exists():
        return True
    return provider.look_up(payment_id).state in _SAID[kind]


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
            refunding.refunded(payment_id)
    return True


def capture(payment_id: UUID) -> None:
    """Inside a transaction: the provider has the money. The order becomes PAID if it still waits; else the money goes
    back. That we had voided the attempt, or thought so, changes nothing: what was captured was captured."""
    taken = Payment.objects.select_for_update().filter(id=payment_id, state__in=("open", "voided")).first()
    if taken is None:
        return
    late = move(taken.order_id, State.PENDING_PAYMENT, State.PAID) is None
    state = "refunding" if late else "captured"
    Payment.objects.filter(id=payment_id).update(state=state, late=late, captured_at=Now())
    if late:
        log.info("late payment", extra={"order": str(taken.order_id), "payment": str(payment_id)})


def close_attempts(order_id: UUID) -> bool:
    """Before an order ends unpaid: void its open attempts. False: one of them was captured, so it does not end.

    `ProviderDown` if the provider does not say: then nobody knows, and the order waits.
    """
    attempts = Payment.objects.filter(order_id=order_id, state="open").values_list("id", flat=True)
    closed = [voided(payment_id, provider.void(payment_id)) for payment_id in attempts]
    return all(closed)


def voided(payment_id: UUID, answer: provider.Answer) -> bool:
    """What the provider has answered to a void; False: it was captured before."""
    if answer.state == "captured":
        with transaction.atomic():
            capture(payment_id)
        return False
    Payment.objects.filter(id=payment_id, state="open").update(state="voided")
    return True
