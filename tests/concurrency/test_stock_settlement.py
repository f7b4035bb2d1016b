"""Settlement on a real Postgres: each order event moves the units of its hold once."""

from __future__ import annotations

from functools import partial

import pytest

from inventory.models import LedgerEntry, Stock
from orders.events import OrderEvent
from tests.concurrency import stock_cast
from tests.concurrency.stock_cast import create_stock, decide, forget_redis_clients, request, settle
from tests.services import together

UNITS = 10


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def stock() -> Stock:
    return create_stock(UNITS)


assert_books_balance = partial(stock_cast.assert_books_balance, units=UNITS)


def test_a_repeated_event_returns_a_unit_once(stock: Stock) -> None:
    asked = request(stock, "ann")
    decide([asked])
    settle(asked, copies=3)
    settle(asked)  # another event about the same hold
    assert_books_balance(stock, reserved=0)


def test_of_paid_and_expired_at_once_only_one_is_posted(stock: Stock) -> None:
    asked = request(stock, "ann")
    decide([asked])
    ends = [partial(settle, asked, event) for event in (OrderEvent.PAID, OrderEvent.EXPIRED)]
    assert together(ends) == [None, None]
    stock.refresh_from_db()
    assert stock.reserved == 0
    assert (stock.sold, stock.available) in {(1, UNITS - 1), (0, UNITS)}


@pytest.mark.parametrize("is_replayed_late", [False, True])
def test_a_refund_returns_its_units_even_if_the_payment_is_replayed_afterwards(
    stock: Stock, is_replayed_late: bool
) -> None:
    """OrderPaid was a dead letter when OrderRefunded arrived."""
    asked = request(stock, "ann")
    decide([asked])
    events = [(OrderEvent.PAID, 0), (OrderEvent.REFUNDED, 1)]
    for event, returned_units in reversed(events) if is_replayed_late else events:
        settle(asked, event, returned_units=returned_units)
    assert_books_balance(stock, reserved=0)
    kinds = LedgerEntry.objects.filter(request_id=asked.request_id).order_by("version").values_list("kind", flat=True)
    assert list(kinds) == ["reserve", "sell", "return"]
