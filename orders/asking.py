"""What a buyer may ask of his own orders; `Problem` says why not. The API and the pages say the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from orders import cancelling, paying
from orders.models import Order, Payment
from orders.payments.provider import ProviderDown
from seckill.problems import Problem

PAGE = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS_MAX = 18
OVER = "The order is paid already, or has ended."


class Listed(NamedTuple):
    """A page of orders, newest first; `next` leads to the next one, empty if there is none."""

    orders: list[Order]
    next: str


def page_of(user_id: str, after: str = "") -> Listed:
    """The orders that follow `after`, which is the `next` of the page before; the newest ones without it."""
    chosen = Order.objects.filter(user_id=user_id)
    if after:
        placed_at, order_id = _place(after)
        chosen = chosen.filter(Q(placed_at__lt=placed_at) | Q(placed_at=placed_at, id__lt=order_id))
    found = list(chosen.order_by("-placed_at", "-id")[: PAGE + 1])
    orders = found[:PAGE]
    if len(found) <= PAGE:
        return Listed(orders, "")
    last = orders[-1]
    return Listed(orders, f"{(last.placed_at - EPOCH) // timedelta(microseconds=1)}.{last.id}")


def _place(after: str) -> tuple[datetime, UUID]:
    micros, _, order_id = after.partition(".")
    try:
        if not (micros.isascii() and micros.isdecimal()):
            raise ValueError(micros)
        return EPOCH + timedelta(microseconds=int(micros[:DIGITS_MAX])), UUID(order_id)
    except (ValueError, OverflowError) as error:
        raise Problem(400, "bad-page", "`after` must be the `next` of the page before.") from error


def all_of(user_id: str) -> QuerySet[Order]:
    """The newest ones, newest first."""
    return Order.objects.filter(user_id=user_id).order_by("-placed_at", "-id")[:PAGE]


def one_of(user_id: str, order_id: UUID) -> Order:
    """Somebody else's is not found."""
    found = Order.objects.filter(id=order_id, user_id=user_id).first()
    if found is None:
        raise Problem(404, "no-such-order", "You have no such order.")
    return found


def pay(order: Order) -> Payment:
    """An attempt at the provider has begun; what becomes of it the provider will say."""
    with at_the_provider():
        payment = paying.begin(order)
    if payment is None:
        raise Problem(409, "nothing-to-pay", OVER)
    return payment


def cancel(order: Order) -> None:
    """It ends, and the units go back; when they are, the purchase says so."""
    with at_the_provider():
        is_cancelled = cancelling.cancel(order)
    if not is_cancelled:
        raise Problem(409, "not-cancellable", OVER)


@contextmanager
def at_the_provider() -> Iterator[None]:
    try:
        yield
    except ProviderDown as fault:
        raise Problem(503, "provider-unavailable", str(fault), retry_after_s=2) from fault
