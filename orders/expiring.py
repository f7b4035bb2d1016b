"""Orders whose time to pay is over. The sweep decides; whatever makes it prompt only calls it earlier.

Those that nobody has tried to pay end many at a time. Where there is an open attempt the provider is asked first, and
it is voided: several at a time, for each answer is waited for.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from django.db import transaction

from orders import paying, rows
from orders.lifecycle import State, move, move_many
from orders.models import Payment
from orders.payments import provider
from orders.payments.provider import Answer, ProviderDown

log = logging.getLogger(__name__)

MOST_AT_ONCE = 500
MOST_ASKED = 64
ASKING = 8


def expire_due() -> int:
    """How many orders have ended."""
    with transaction.atomic():
        ended = len(move_many(rows.lock_due(MOST_AT_ONCE), State.PENDING_PAYMENT, State.EXPIRED))
    return ended + _expire_attempted()


def _expire_attempted() -> int:
    attempts = rows.due_attempts(MOST_ASKED)
    free: dict[UUID, list[bool]] = defaultdict(list)
    for order_id, payment_id, answer in _void(attempts):
        free[order_id].append(answer is not None and paying.voided(payment_id, answer))
    ended = 0
    for order_id in (order_id for order_id, every in free.items() if all(every)):
        with transaction.atomic():
            ended += move(order_id, State.PENDING_PAYMENT, State.EXPIRED) is not None
    return ended


def close_leftovers() -> int:
    """Attempts that are open though their order has ended: begun while it ended, and nobody has voided them since."""
    left = Payment.objects.filter(state="open").exclude(order__state=State.PENDING_PAYMENT)
    attempts = list(left.order_by("opened_at").values_list("order_id", "id")[:MOST_ASKED])
    answered = [(payment_id, answer) for _, payment_id, answer in _void(attempts) if answer is not None]
    for payment_id, answer in answered:
        paying.voided(payment_id, answer)
    return len(answered)


def _void(attempts: list[tuple[UUID, UUID]]) -> list[tuple[UUID, UUID, Answer | None]]:
    """(order, payment, answer); None: the provider did not say, so nobody knows."""
    if not attempts:
        return []
    with ThreadPoolExecutor(min(ASKING, len(attempts)), "void") as pool:
        answers = list(pool.map(_ask, (payment_id for _, payment_id in attempts)))
    return [(*attempt, answer) for attempt, answer in zip(attempts, answers, strict=True)]


def _ask(payment_id: UUID) -> Answer | None:
    """In a thread of the pool: nothing of the database here."""
    try:
        return provider.void(payment_id)
    except ProviderDown as fault:
        log.warning("expiry waits", extra={"payment": str(payment_id), "reason": str(fault)})
        return None
