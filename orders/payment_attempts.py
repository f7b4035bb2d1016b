"""Incoming money: attempts to pay and captures. A payment that arrives too late is refunded; the order stays ended."""

from __future__ import annotations

import logging
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from orders import locks, refunds
from orders.lifecycle import move_order
from orders.models import Callback, Order, Payment
from orders.payments import provider
from orders.placement import payment_id_of
from orders.states import OrderState, PaymentState

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 20
"""Per order. Each attempt is a row here and a payment at the provider."""


def start_attempt(order: Order) -> Payment | None:
    """The open attempt of the order, or a new one. None: the order cannot be paid any more.

    Our row is committed before the provider is called, so the provider has no payment that is unknown here. If the
    provider has already voided the attempt and we did not record it, the next attempt follows.
    """
    while (payment := _find_or_create_attempt(order.id)) is not None:
        reported = provider.open_payment(payment.id, order.id, payment.amount)
        if reported.state == "voided":
            Payment.objects.filter(id=payment.id, state=PaymentState.OPEN).update(state=PaymentState.VOIDED)
            continue
        if reported.state == "captured":
            with transaction.atomic():
                record_capture(payment.id)
        Payment.objects.filter(id=payment.id).update(provider_reference=reported.reference)
        return payment
    return None


def _find_or_create_attempt(order_id: UUID) -> Payment | None:
    with transaction.atomic():
        order = locks.lock_payable_order(order_id)
        if order is None:
            return None
        number = order.payments.count()
        payment = order.payments.filter(state=PaymentState.OPEN).first()
        if payment is None and number < ATTEMPTS_MAX:
            payment = Payment.objects.create(id=payment_id_of(order.id, number), order=order, amount=order.amount)
        return payment


_STATES_CHANGED_BY = {
    "captured": (PaymentState.OPEN, PaymentState.VOIDED),
    "refunded": (PaymentState.REFUNDING,),
}
"""A callback of this kind changes a payment in these states."""
_STATES_CONFIRMING = {"captured": ("captured", "refunded"), "refunded": ("refunded",)}
"""The provider's states that confirm a callback; the payment may have moved on since the callback was sent."""


def is_callback_confirmed(payment_id: UUID, kind: str) -> bool:
    """Ask the provider whether a callback is true, so that a stolen signing key cannot mark orders as paid.

    The provider is asked only if the callback would change something, so repeated callbacks cost no call. Raises
    `ProviderDown` if it does not answer; the callback must then be sent again.
    """
    states = _STATES_CHANGED_BY.get(kind, ())
    if not Payment.objects.filter(id=payment_id, state__in=states).exists():
        return True
    return provider.get_payment(payment_id).state in _STATES_CONFIRMING[kind]


def handle_callback(callback_id: str, payment_id: UUID, kind: str) -> bool:
    """Apply a genuine callback. False: the payment is unknown. Repeats only raise the count."""
    with transaction.atomic():
        if not Payment.objects.filter(id=payment_id).exists():
            return False
        _, is_new = Callback.objects.get_or_create(
            callback_id=callback_id, defaults={"payment_id": payment_id, "kind": kind}
        )
        if not is_new:
            Callback.objects.filter(callback_id=callback_id).update(received=F("received") + 1)
        if kind == "captured":
            record_capture(payment_id)
        elif kind == "refunded":
            refunds.record_refund(payment_id)
    return True


def record_capture(payment_id: UUID) -> None:
    """Inside a transaction: the provider has the money. The order becomes PAID if it is still waiting; otherwise the
    money is refunded. This also applies to an attempt that we recorded as voided."""
    payment = locks.lock_unsettled_payment(payment_id)
    if payment is None:
        return
    is_late = move_order(payment.order_id, OrderState.PENDING_PAYMENT, OrderState.PAID) is None
    state = PaymentState.REFUNDING if is_late else PaymentState.CAPTURED
    Payment.objects.filter(id=payment_id).update(state=state, late=is_late, captured_at=Now())
    if is_late:
        log.info("late payment", extra={"order": str(payment.order_id), "payment": str(payment_id)})


def void_open_attempts(order_id: UUID) -> bool:
    """Void the open attempts before an order ends unpaid. False: one was captured, so the order must not end.

    Raises `ProviderDown` if the provider does not answer; the order then stays as it is.
    """
    attempts = Payment.objects.filter(order_id=order_id, state=PaymentState.OPEN).values_list("id", flat=True)
    voided = [record_void(payment_id, provider.void_payment(payment_id)) for payment_id in attempts]
    return all(voided)


def record_void(payment_id: UUID, reported: provider.ProviderPayment) -> bool:
    """Store the provider's answer to a void. False: the payment was captured before."""
    if reported.state == "captured":
        with transaction.atomic():
            record_capture(payment_id)
        return False
    Payment.objects.filter(id=payment_id, state=PaymentState.OPEN).update(state=PaymentState.VOIDED)
    return True
