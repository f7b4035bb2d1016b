"""What a buyer can do with their own orders, for the API and the pages alike. A refusal raises `Problem`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from orders import cancellation, payment_attempts
from orders.models import Order, Payment
from orders.payments.provider import ProviderDown
from seckill.web.problems import Problem

PAGE_ORDERS_MAX = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CURSOR_DIGITS_MAX = 18
ORDER_ENDED_TEXT = "The order is already paid or has ended."


class OrderPage(NamedTuple):
    """Orders, newest first. `next` is the cursor of the next page, empty on the last one."""

    orders: list[Order]
    next: str


def list_orders(user_id: str, after: str = "") -> OrderPage:
    """One page of the user's orders. `after` is the `next` of the previous page; empty for the newest orders."""
    chosen = Order.objects.filter(user_id=user_id)
    if after:
        placed_at, order_id = _parse_cursor(after)
        chosen = chosen.filter(Q(placed_at__lt=placed_at) | Q(placed_at=placed_at, id__lt=order_id))
    found = list(chosen.order_by("-placed_at", "-id")[: PAGE_ORDERS_MAX + 1])
    orders = found[:PAGE_ORDERS_MAX]
    if len(found) <= PAGE_ORDERS_MAX:
        return OrderPage(orders, "")
    last = orders[-1]
    return OrderPage(orders, f"{(last.placed_at - EPOCH) // timedelta(microseconds=1)}.{last.id}")


def _parse_cursor(after: str) -> tuple[datetime, UUID]:
    micros, _, order_id = after.partition(".")
    try:
        if not (micros.isascii() and micros.isdecimal()):
            raise ValueError(micros)
        return EPOCH + timedelta(microseconds=int(micros[:CURSOR_DIGITS_MAX])), UUID(order_id)
    except (ValueError, OverflowError) as error:
        raise Problem(400, "bad-page", "`after` must be the `next` of the previous page.") from error


def get_order(user_id: str, order_id: UUID) -> Order:
    """Orders of other buyers are reported as missing."""
    found = Order.objects.filter(id=order_id, user_id=user_id).first()
    if found is None:
        raise Problem(404, "no-such-order", "You have no such order.")
    return found


def start_payment(order: Order) -> Payment:
    """Open an attempt at the provider, which reports its result by a callback."""
    with provider_faults_as_problems():
        payment = payment_attempts.start_attempt(order)
    if payment is None:
        raise Problem(409, "nothing-to-pay", ORDER_ENDED_TEXT)
    return payment


def cancel_order(order: Order) -> None:
    """The order ends now. The units follow when inventory has released them, and the purchase's page shows that."""
    with provider_faults_as_problems():
        is_cancelled = cancellation.cancel_unpaid_order(order)
    if not is_cancelled:
        raise Problem(409, "not-cancellable", ORDER_ENDED_TEXT)


@contextmanager
def provider_faults_as_problems() -> Iterator[None]:
    try:
        yield
    except ProviderDown as fault:
        raise Problem(503, "provider-unavailable", str(fault), retry_after_s=2) from fault
