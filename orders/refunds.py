"""Outgoing money: refunds of late payments and refunds by an operator. A row records each refund that is still owed.

The provider is called with the payment's id as idempotency key, so it pays back once no matter how often we ask.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from orders import locks
from orders.events import OrderEvent
from orders.lifecycle import build_event, move_order
from orders.models import Discrepancy, Order, Payment
from orders.payments import provider
from orders.payments.matching import Finding
from orders.payments.provider import ProviderDown
from orders.states import DiscrepancyState, OrderState, PaymentState
from seckill.audit.trail import audited
from seckill.messaging.outbox import publish

log = logging.getLogger(__name__)

REFUNDS_PER_PASS_MAX = 200


class RefundRejected(Exception):
    """There is nothing to refund; the message says why."""


class Refund(NamedTuple):
    order_id: UUID
    payment_id: UUID
    amount: int


def refund_order(order_id: UUID, *, return_units: bool, because: str = "", actor: str | None = None) -> Refund:
    """An operator's command: PAID → REFUNDED. The money is owed from now on (`send_refund`). The units go back into the
    sale only if `return_units`."""
    with audited("refund", str(order_id), actor=actor, return_units=return_units, because=because):
        order = move_order(order_id, OrderState.PAID, OrderState.REFUNDED, return_units=return_units)
        if order is None:
            raise RefundRejected(_rejection_reason(order_id))
        paid_with = locks.lock_counting_payment(order_id)
        if paid_with is None:
            text = _("order {order} is PAID but has no captured payment; run `seckill reconcile`")
            raise RefundRejected(format_lazy(text, order=order_id))
        Payment.objects.filter(id=paid_with.id).update(state=PaymentState.REFUNDING)
        return Refund(order_id, paid_with.id, paid_with.amount)


def _rejection_reason(order_id: UUID) -> str | Promise:
    state = Order.objects.filter(id=order_id).values_list("state", flat=True).first()
    if state is None:
        return format_lazy(_("order {order} does not exist"), order=order_id)
    return format_lazy(_("order {order} is {state}; only a PAID order can be refunded"), order=order_id, state=state)


def send_refund(payment_id: UUID) -> bool:
    """Ask the provider for an owed refund. True: the money is back. Raises `ProviderDown` if it must be asked again."""
    if provider.refund_payment(payment_id).state != "refunded":
        return False
    with transaction.atomic():
        record_refund(payment_id)
    return True


def record_refund(payment_id: UUID) -> None:
    """Inside a transaction: the provider has refunded the payment."""
    refunding = Payment.objects.filter(id=payment_id, state=PaymentState.REFUNDING)
    if refunding.update(state=PaymentState.REFUNDED, refunded_at=Now()) != 1:
        _record_orphan_refund(payment_id)
        return
    payment = Payment.objects.select_related("order").get(id=payment_id)
    if payment.late and payment.refunded_at is not None:  # other refunds were published when the order became REFUNDED
        publish([build_event(payment.order, OrderEvent.LATE_PAYMENT_REFUNDED, payment.refunded_at)])


def send_due_refunds() -> int:
    """Ask for every owed refund. Returns how many were done; the others are asked for again."""
    payments = Payment.objects.filter(state=PaymentState.REFUNDING).order_by("opened_at")
    orphans = Discrepancy.objects.filter(state=DiscrepancyState.OWED).order_by("id")
    owed = [
        *payments.values_list("id", flat=True)[:REFUNDS_PER_PASS_MAX],
        *orphans.values_list("payment_id", flat=True)[:REFUNDS_PER_PASS_MAX],
    ]
    done = 0
    for payment_id in owed:
        try:
            done += send_refund(payment_id)
        except ProviderDown as fault:
            log.warning("refund postponed", extra={"payment": str(payment_id), "reason": str(fault)})
    return done


def _record_orphan_refund(payment_id: UUID) -> None:
    owed = Discrepancy.objects.filter(payment_id=payment_id, kind=Finding.ORPHAN, state=DiscrepancyState.OWED)
    if owed.update(state=DiscrepancyState.SETTLED, settled_at=Now()):
        log.info("orphan refunded", extra={"payment": str(payment_id)})
