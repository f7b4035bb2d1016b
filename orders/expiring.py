"""Orders whose time to pay is over. The sweep decides; whatever makes it prompt only calls it earlier."""

from __future__ import annotations

import logging
import threading
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import close_old_connections, transaction
from django.utils import timezone

from orders import paying
from orders.lifecycle import State, move
from orders.models import Order
from orders.payments.provider import ProviderDown
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

BEAT_S = 0.5
MOST_AT_ONCE = 500


def expire(order_id: UUID) -> bool:
    """End one order, unless it was paid meanwhile; an open attempt is voided first."""
    if not paying.close_attempts(order_id):
        return False
    with transaction.atomic():
        return move(order_id, State.PENDING_PAYMENT, State.EXPIRED) is not None


def expire_due() -> int:
    due = Order.objects.filter(state=State.PENDING_PAYMENT, pay_before__lte=timezone.now()).order_by("pay_before")
    ended = 0
    for order_id in due.values_list("id", flat=True)[:MOST_AT_ONCE]:
        try:
            ended += expire(order_id)
        except ProviderDown as fault:
            log.warning("expiry waits", extra={"order": str(order_id), "reason": str(fault)})
    return ended


class Sweep:
    """The process that looks, every half second: orders to end, refunds to ask for."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        announce()
        while not self._stopping.is_set():
            try:
                worked = expire_due() + paying.refund_due()
            except DatabaseError as fault:
                log.warning("sweep pauses", extra={"reason": str(fault)})
                close_old_connections()
                worked = 0
            if not worked:
                self._stopping.wait(BEAT_S)
