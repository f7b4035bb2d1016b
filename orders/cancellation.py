"""Cancellation by the buyer, possible until a payment is captured. Inventory announces when the units are back."""

from __future__ import annotations

from django.db import transaction

from orders import payment_attempts
from orders.lifecycle import move_order
from orders.models import Order
from orders.states import OrderState


def cancel_unpaid_order(order: Order) -> bool:
    """False: the order was paid or has ended. Raises `ProviderDown` if an attempt could not be voided."""
    if order.state != OrderState.PENDING_PAYMENT or not payment_attempts.void_open_attempts(order.id):
        return False
    with transaction.atomic():
        return move_order(order.id, OrderState.PENDING_PAYMENT, OrderState.CANCELLED) is not None
