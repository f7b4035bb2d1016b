"""Expire orders whose time to pay has ended. The sweep decides; a Celery task only makes it happen sooner.

Orders without an open attempt expire in batches. An open attempt must first be voided at the provider; these calls run
in parallel, because a slow provider must not delay an order beyond the promised grace period.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from uuid import UUID

from django.db import transaction

from orders import batch_sql, locks, payment_attempts
from orders.lifecycle import move_order, move_orders
from orders.models import Payment
from orders.payments import provider
from orders.payments.provider import ProviderDown, ProviderPayment
from orders.states import OrderState, PaymentState

log = logging.getLogger(__name__)

ORDERS_PER_PASS_MAX = 500
ATTEMPTS_PER_PASS_MAX = 2000
VOID_THREADS_MAX = 96
"""One call per thread: at 0.3 s per call, 300 attempts a second."""


def expire_due_orders() -> int:
    """Returns how many orders expired."""
    return expire_unattempted() + expire_attempted()


def expire_unattempted() -> int:
    """Expire due orders without an open attempt."""
    with transaction.atomic():
        due = locks.lock_due_orders(ORDERS_PER_PASS_MAX)
        return len(move_orders(due, OrderState.PENDING_PAYMENT, OrderState.EXPIRED))


def expire_attempted() -> int:
    """Expire each due order as soon as the provider has voided all its attempts."""
    attempts = batch_sql.find_due_attempts(ATTEMPTS_PER_PASS_MAX)
    unanswered = Counter(order_id for order_id, _ in attempts)
    kept: set[UUID] = set()
    expired = 0
    for order_id, payment_id, reported in _void_attempts(attempts):
        unanswered[order_id] -= 1
        if reported is None or not payment_attempts.record_void(payment_id, reported):
            kept.add(order_id)
        if not unanswered[order_id] and order_id not in kept:
            with transaction.atomic():
                expired += move_order(order_id, OrderState.PENDING_PAYMENT, OrderState.EXPIRED) is not None
    return expired


def void_leftover_attempts() -> int:
    """Void attempts of orders that have ended: they were opened while the order ended. Returns how many."""
    leftover = Payment.objects.filter(state=PaymentState.OPEN).exclude(order__state=OrderState.PENDING_PAYMENT)
    attempts = list(leftover.order_by("opened_at").values_list("order_id", "id")[:ATTEMPTS_PER_PASS_MAX])
    done = 0
    for _, payment_id, reported in _void_attempts(attempts):
        if reported is not None:
            payment_attempts.record_void(payment_id, reported)
            done += 1
    return done


def _void_attempts(attempts: list[tuple[UUID, UUID]]) -> Iterator[tuple[UUID, UUID, ProviderPayment | None]]:
    """(order, payment, the provider's answer or None), in the order in which the answers arrive."""
    if not attempts:
        return
    with ThreadPoolExecutor(min(VOID_THREADS_MAX, len(attempts)), "void") as pool:
        calls = {pool.submit(_void_attempt, payment_id): (order_id, payment_id) for order_id, payment_id in attempts}
        for call in as_completed(calls):
            yield *calls[call], call.result()


def _void_attempt(payment_id: UUID) -> ProviderPayment | None:
    """Runs in a thread of the pool, so it must not use the database."""
    try:
        return provider.void_payment(payment_id)
    except ProviderDown as fault:
        log.warning("expiry postponed", extra={"payment": str(payment_id), "reason": str(fault)})
        return None
