"""Orders whose time to pay is over. The sweep decides; whatever makes it prompt only calls it earlier.

Those that nobody has tried to pay end many at a time. Where there is an open attempt the provider is asked first, and
it is voided: many at a time, because a slow provider must not delay an end by more than the grace that is promised.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from uuid import UUID

from django.db import transaction

from orders import paying, rows
from orders.lifecycle import State, move, move_many
from orders.models import Payment
from orders.payments import provider
from orders.payments.provider import Answer, ProviderDown

log = logging.getLogger(__name__)

MOST_AT_ONCE = 500
MOST_ASKED = 2000
ASKING = 96
"""At 0.3 s an answer, 300 attempts a second; each waits on a thread of its own."""


def expire_due() -> int:
    """How many orders have ended."""
    return expire_unattempted() + expire_attempted()


def expire_unattempted() -> int:
    """Those that nobody is trying to pay."""
    with transaction.atomic():
        return len(move_many(rows.lock_due(MOST_AT_ONCE), State.PENDING_PAYMENT, State.EXPIRED))


def expire_attempted() -> int:
    """Those whose attempts the provider has voided, each as soon as it says so."""
    attempts = rows.due_attempts(MOST_ASKED)
    left = Counter(order_id for order_id, _ in attempts)
    captured: set[UUID] = set()
    ended = 0
    for order_id, payment_id, answer in _void(attempts):
        left[order_id] -= 1
        if answer is None or not paying.voided(payment_id, answer):
            captured.add(order_id)
        if not left[order_id] and order_id not in captured:
            with transaction.atomic():
                ended += move(order_id, State.PENDING_PAYMENT, State.EXPIRED) is not None
    return ended


def close_leftovers() -> int:
    """Attempts that are open though their order has ended: begun while it ended, and nobody has voided them since."""
    left = Payment.objects.filter(state="open").exclude(order__state=State.PENDING_PAYMENT)
    attempts = list(left.order_by("opened_at").values_list("order_id", "id")[:MOST_ASKED])
    done = 0
    for _, payment_id, answer in _void(attempts):
        if answer is not None:
            paying.voided(payment_id, answer)
            done += 1
    return done


def _void(attempts: list[tuple[UUID, UUID]]) -> Iterator[tuple[UUID, UUID, Answer | None]]:
    """(order, payment, answer), as answers come; None: the provider did not say, so it is not known."""
    if not attempts:
        return
    with ThreadPoolExecutor(min(ASKING, len(attempts)), "void") as pool:
        asked = {pool.submit(_ask, payment_id): (order_id, payment_id) for order_id, payment_id in attempts}
        for answer in as_completed(asked):
            yield *asked[answer], answer.result()


def _ask(payment_id: UUID) -> Answer | None:
    """In a thread of the pool: nothing of the database here."""
    try:
        return provider.void(payment_id)
    except ProviderDown as fault:
        log.warning("expiry waits", extra={"payment": str(payment_id), "reason": str(fault)})
        return None
