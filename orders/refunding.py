"""Money going back: what came too late, and what an operator gives back. Owed durably, asked for until it is done.

The provider is asked under the payment's id, so however often and by however many it is asked, it pays back once.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from orders.events import OrderEvent
from orders.lifecycle import State, event_of, move
from orders.models import Discrepancy, Order, Payment
from orders.payments import provider
from orders.payments.matching import Finding
from orders.payments.provider import ProviderDown
from seckill.audit.trail import acting
from seckill.streams.outbox import publish

log = logging.getLogger(__name__)

MOST_AT_ONCE = 200


class Refused(Exception):
    """There is nothing to refund; the text says why."""


class Refund(NamedTuple):
    order_id: UUID
    payment_id: UUID
    amount: int


def refund(order_id: UUID, *, return_units: bool, because: str = "", actor: str | None = None) -> Refund:
    """An operator's verb: PAID → REFUNDED. The money is owed from now on (`give_back`); the units go back into the sale
    only if he says so."""
    with acting("refund", str(order_id), actor=actor, return_units=return_units, because=because):
        order = move(order_id, State.PAID, State.REFUNDED, return_units=return_units)
        if order is None:
            raise Refused(_why_not(order_id))
        paid_with = Payment.objects.select_for_update().filter(order_id=order_id, state="captured", late=False).first()
        if paid_with is None:
            raise Refused(f"order {order_id} is PAID, and no payment of it was captured: look at `seckill reconcile`")
        Payment.objects.filter(id=paid_with.id).update(state="refunding")
        return Refund(order_id, paid_with.id, paid_with.amount)


def _why_not(order_id: UUID) -> str:
    state = Order.objects.filter(id=order_id).values_list("state", flat=True).first()
    if state is None:
        return f"there is no order {order_id}"
    return f"order {order_id} is {state}; only a PAID one can be refunded"


def give_back(payment_id: UUID) -> bool:
    """Ask the provider for one refund that is owed; True: the money is back. `ProviderDown`: ask again later."""
    if provider.refund(payment_id).state != "refunded":
        return False
    with transaction.atomic():
        refunded(payment_id)
    return True


def refunded(payment_id: UUID) -> None:
    """Inside a transaction: the provider has given the money back."""
    done = Payment.objects.filter(id=payment_id, state="refunding")
    if done.update(state="refunded", refunded_at=Now()) != 1:
        _orphan_refunded(payment_id)
        return
    payment = Payment.objects.select_related("order").get(id=payment_id)
    if payment.late:  # of the others it was told when the order became REFUNDED
        publish([event_of(payment.order, OrderEvent.LATE_PAYMENT_REFUNDED, timezone.now())])


def refund_due() -> int:
    """Ask for every refund that is owed; how many were done. The rest is asked for again."""
    owed = [
        *Payment.objects.filter(state="refunding").order_by("opened_at").values_list("id", flat=True)[:MOST_AT_ONCE],
        *Discrepancy.objects.filter(state="owed").order_by("id").values_list("payment_id", flat=True)[:MOST_AT_ONCE],
    ]
    done = 0
    for payment_id in owed:
        try:
            done += give_back(payment_id)
        except ProviderDown as fault:
            log.warning("refund waits", extra={"payment": str(payment_id), "reason": str(fault)})
    return done


def _orphan_refunded(payment_id: UUID) -> None:
    owed = Discrepancy.objects.filter(payment_id=payment_id, kind=Finding.ORPHAN, state="owed")
    if owed.update(state="settled", settled_at=Now()):
        log.info("orphan refunded", extra={"payment": str(payment_id)})
