"""What a buyer may ask of his own orders; `Problem` says why not. The API and the pages say the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db.models import QuerySet

from orders import cancelling, paying
from orders.models import Order, Payment
from orders.payments.provider import ProviderDown
from seckill.problems import Problem

PAGE = 100
OVER = "The order is paid already, or has ended."


def all_of(user_id: str) -> QuerySet[Order]:
    """The newest ones, newest first."""
    return Order.objects.filter(user_id=user_id).order_by("-placed_at")[:PAGE]


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
