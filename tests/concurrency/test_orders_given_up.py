"""A reservation that can never become an order: its decision lies among the dead letters of orders and is discarded.
Then its units go back into the sale, once, its buyer is told so and may buy again, and the report knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from gateway import outcomes
from gateway.events import PurchaseRequested
from gateway.outcomes import project
from inventory import gate, operating, reserving
from inventory.events import read as read_inventory
from inventory.handlers import OrderEvents
from inventory.models import Hold, LedgerEntry, Settled, Stock
from orders.events import read as read_order
from orders.handlers import Decisions
from orders.models import Order, Transition
from orders.placing import order_id_of
from seckill.envelope import Envelope, decode
from seckill.streams import letters, offsets
from seckill.streams.models import DeadLetter, OutboxRow
from seckill.streams.records import Batch, Permanent, Received
from seckill.streams.working import Worker
from tests.concurrency.streams_cast import record
from tests.services import together

FAR_MS = 10**15


@pytest.fixture(autouse=True)
def fresh_gate() -> Iterator[None]:
    gate.redis.cache_clear()
    gate._script.cache_clear()
    yield


@pytest.fixture
def stock() -> Stock:
    return operating.create("Gong", "phone", 3, 100, 1, 0, FAR_MS)


def said(kind: str) -> list[Envelope]:
    """What has been published of this kind, in order."""
    found = [decode(bytes(row.value)) for row in OutboxRow.objects.exclude(writer=letters.WRITER).order_by("id")]
    return [each for each in found if each.type == kind]


def reserved(stock: Stock) -> Envelope:
    """The decision of a request that got a unit."""
    asked = PurchaseRequested(uuid4(), "ann", stock.sale_id, stock.sku, 1, 0, FAR_MS)
    arrived = Received("purchase.requests", 0, 0, 0, "ann", asked.envelope())
    with transaction.atomic():
        reserving.reserve(Batch("cluster", "requests", "purchase.requests", 0, [arrived]))
    [decision] = said("PurchaseDecided")
    return decision


def dead(decision: Envelope) -> DeadLetter:
    """Orders could not work on it."""
    broken = Decisions()
    claim = offsets.claim("cluster", "decisions", "inventory.decisions", 0, broken.group, 0)
    with mock.patch.object(Decisions, "handle", side_effect=Permanent("a bad deploy")):
        Worker(broken).work(claim, [record(0, content=decision.encode())], 0)
    [letter] = letters.listed(group="orders", state="open")
    return letter


def settled(event: Envelope) -> None:
    batch = Batch("cluster", "events", "order.events", 0, [Received("order.events", 0, 0, 0, "ann", event)])
    with transaction.atomic():
        OrderEvents().handle(batch)


def accounts(stock: Stock) -> tuple[int, int, int]:
    stock.refresh_from_db()
    return stock.available, stock.reserved, stock.sold


def shown(request: UUID) -> tuple[str, bool]:
    """All that was published, as its buyer's page has it."""
    events = [read_inventory(each) for kind in ("PurchaseDecided", "UnitsReleased") for each in said(kind)]
    with transaction.atomic():
        project([*events, *map(read_order, said("OrderNotPlaced"))])
    found = outcomes.find(request)
    assert found is not None
    return found.state, found.may_buy_again


def test_its_units_go_back_once_and_its_buyer_is_told(stock: Stock) -> None:
    decision = reserved(stock)
    request = read_inventory(decision).request_id
    assert letters.discard(dead(decision), Decisions(), "a sku we do not sell any more") is None
    [event] = said("OrderNotPlaced")
    assert (event.cause, read_order(event).request_id) == (decision.event_id, request)
    for _ in range(2):  # it is delivered again
        settled(event)
    assert accounts(stock) == (3, 0, 0)
    assert Hold.objects.get(request_id=request).state == "released"
    assert list(LedgerEntry.objects.order_by("version").values_list("kind", flat=True)) == [
        "declare", "reserve", "release",
    ]  # fmt: skip
    assert shown(request) == ("NOT_PLACED", True)
    assert Counter(Settled.objects.values_list("kind", "posted")) == {("OrderNotPlaced", True): 1}


def test_a_copy_of_the_decision_that_comes_later_makes_no_order(stock: Stock) -> None:
    decision = reserved(stock)
    letters.discard(dead(decision), Decisions(), "never")
    late = Received("inventory.decisions", 0, 9, 0, "ann", decision)
    with transaction.atomic():
        Decisions().handle(Batch("cluster", "decisions", "inventory.decisions", 0, [late]))
    assert list(Order.objects.values_list("state", flat=True)) == ["NOT_PLACED"]
    assert list(Transition.objects.values_list("before", "after")) == [("", "NOT_PLACED")]
    assert said("OrderPlaced") == []


def test_a_copy_that_was_worked_on_before_keeps_its_order(stock: Stock) -> None:
    """The letter is of a record that was published twice; the other one has been read."""
    decision = reserved(stock)
    letter = dead(decision)
    copy = Received("inventory.decisions", 0, 9, 0, "ann", decision)
    with transaction.atomic():
        Decisions().handle(Batch("cluster", "decisions", "inventory.decisions", 0, [copy]))
    assert letters.discard(letter, Decisions(), "noise") is None
    assert said("OrderNotPlaced") == []
    request = read_inventory(decision).request_id
    assert Order.objects.get(id=order_id_of(request)).state == "PENDING_PAYMENT"


def test_discarded_and_replayed_at_the_same_time_it_becomes_one_of_the_two(stock: Stock) -> None:
    letter = dead(reserved(stock))
    together([lambda: letters.discard(letter, Decisions(), "never"), lambda: letters.replay(letter, Decisions())] * 2)
    letter.refresh_from_db()
    [state] = Order.objects.values_list("state", flat=True)
    assert (letter.state, state) in (("discarded", "NOT_PLACED"), ("replayed", "PENDING_PAYMENT"))
    assert len(said("OrderNotPlaced")) + len(said("OrderPlaced")) == 1


def test_without_a_word_from_orders_its_units_would_be_held_for_ever(stock: Stock) -> None:
    """The control: the same letter, discarded by a handler that says nothing."""
    decision = reserved(stock)
    letter = dead(decision)
    with mock.patch("seckill.streams.letters.isinstance", return_value=False, create=True):
        assert letters.discard(letter, Decisions(), "never") is None
    assert said("OrderNotPlaced") == []
    assert accounts(stock) == (2, 1, 0)
    assert shown(read_inventory(decision).request_id) == ("RESERVED", False)


def test_what_orders_cannot_read_is_discarded_without_a_word(stock: Stock) -> None:
    """Nobody can say whose it was; the report names the reservation that has no order (I3)."""
    decision = reserved(stock)
    unreadable = decision._replace(version=99)
    assert letters.discard(dead(unreadable), Decisions(), "of a version that never was") is None
    assert Order.objects.count() == 0
    assert letters.listed(group="orders", state="discarded") != []
