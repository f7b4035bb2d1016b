"""A buyer changes his mind: as long as nothing was captured. The units are back only when inventory says so."""

from __future__ import annotations

from django.db import transaction

from orders import paying
from orders.lifecycle import State, move
from orders.models import Order


def cancel(order: Order) -> bool:
    """False: it was paid or has ended already. `ProviderDown`: nobody knows yet, ask again."""
    if order.state != State.PENDING_PAYMENT or not paying.close_attempts(order.id):
        return False
    with transaction.atomic():
        return move(order.id, State.PENDING_PAYMENT, State.CANCELLED) is not None
