"""An operator discards the dead letter of a reservation, so it can never become an order.

Its units go back into the sale once, and its buyer sees that and may buy again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from gateway import outcomes
from gateway.events import PurchaseRequested
from gateway.outcomes import project_events
from inventory import gate, reservation, sale_commands
from inventory.events import parse_event as read_inventory
from inventory.handlers import SettlementHandler
from inventory.models import Hold, LedgerEntry, SettledEvent, Stock
from orders.events import parse_event as read_order
from orders.handlers import DecisionHandler
from orders.models import Order, Transition
from orders.placement import order_id_of
from seckill.messaging import dead_letters, offsets
from seckill.messaging.batch_worker import BatchWorker
from seckill.messaging.envelope import Envelope, decode_envelope
from seckill.messaging.models import DeadLetter, OutboxRow
from seckill.messaging.records import Batch, PermanentFailure, ReceivedRecord
from tests.concurrency.messaging_cast import record
from tests.services import together

FAR_MS = 10**15


@pytest.fixture(autouse=True)
def fresh_gate() -> Iterator[None]:
    gate.redis.cache_clear()
    gate._script.cache_clear()
    yield


@pytest.fixture
def stock() -> Stock:
    return sale_commands.create_sale("Gong", "phone", 3, 100, 1, 0, FAR_MS)


def published(kind: str) -> list[Envelope]:
    """The published events of this kind, in order."""
    found = [
        decode_envelope(bytes(row.value))
        for row in OutboxRow.objects.exclude(writer=dead_letters.OUTBOX_WRITER).order_by("id")
    ]
    return [each for each in found if each.type == kind]


def reserved(stock: Stock) -> Envelope:
    """The decision of a request that gets a unit."""
    asked = PurchaseRequested(uuid4(), "ann", stock.sale_id, stock.sku, 1, 0, FAR_MS)
    arrived = ReceivedRecord("purchase.requests", 0, 0, 0, "ann", asked.envelope())
    with transaction.atomic():
        reservation.decide_batch(Batch("cluster", "requests", "purchase.requests", 0, [arrived]))
    [decision] = published("PurchaseDecided")
    return decision


def dead(decision: Envelope) -> DeadLetter:
    """The dead letter of a decision that orders failed to handle."""
    broken = DecisionHandler()
    claim = offsets.claim_partition("cluster", "decisions", "inventory.decisions", 0, broken.group, 0)
    with mock.patch.object(DecisionHandler, "handle", side_effect=PermanentFailure("a bad deploy")):
        BatchWorker(broken).process(claim, [record(0, content=decision.encode())], 0)
    [letter] = dead_letters.list_dead_letters(group="orders", state="open")
    return letter


def settled(event: Envelope) -> None:
    batch = Batch("cluster", "events", "order.events", 0, [ReceivedRecord("order.events", 0, 0, 0, "ann", event)])
    with transaction.atomic():
        SettlementHandler().handle(batch)


def accounts(stock: Stock) -> tuple[int, int, int]:
    stock.refresh_from_db()
    return stock.available, stock.reserved, stock.sold


def shown(request: UUID) -> tuple[str, bool]:
    """State and `may_buy_again` of the purchase after all published events."""
    events = [read_inventory(each) for kind in ("PurchaseDecided", "UnitsReleased") for each in published(kind)]
    with transaction.atomic():
        project_events([*events, *map(read_order, published("OrderNotPlaced"))])
    found = outcomes.find_outcomes([request])[request]
    return found.state, found.may_buy_again


def test_discarding_its_decision_releases_the_units_once_and_informs_the_buyer(stock: Stock) -> None:
    decision = reserved(stock)
    request = read_inventory(decision).request_id
    assert dead_letters.discard(dead(decision), DecisionHandler(), "a sku we do not sell any more") is None
    [event] = published("OrderNotPlaced")
    assert (event.cause, read_order(event).request_id) == (decision.event_id, request)
    for _ in range(2):  # it is redelivered
        settled(event)
    assert accounts(stock) == (3, 0, 0)
    assert Hold.objects.get(request_id=request).state == "released"
    assert list(LedgerEntry.objects.order_by("version").values_list("kind", flat=True)) == [
        "declare", "reserve", "release",
    ]  # fmt: skip
    assert shown(request) == ("NOT_PLACED", True)
    assert Counter(SettledEvent.objects.values_list("kind", "posted")) == {("OrderNotPlaced", True): 1}


def test_a_later_copy_of_the_discarded_decision_places_no_order(stock: Stock) -> None:
    decision = reserved(stock)
    dead_letters.discard(dead(decision), DecisionHandler(), "never")
    late = ReceivedRecord("inventory.decisions", 0, 9, 0, "ann", decision)
    with transaction.atomic():
        DecisionHandler().handle(Batch("cluster", "decisions", "inventory.decisions", 0, [late]))
    assert list(Order.objects.values_list("state", flat=True)) == ["NOT_PLACED"]
    assert list(Transition.objects.values_list("before", "after")) == [("", "NOT_PLACED")]
    assert published("OrderPlaced") == []


def test_an_earlier_copy_of_the_discarded_decision_keeps_its_order(stock: Stock) -> None:
    """The decision was published twice, and the other copy was handled."""
    decision = reserved(stock)
    letter = dead(decision)
    copy = ReceivedRecord("inventory.decisions", 0, 9, 0, "ann", decision)
    with transaction.atomic():
        DecisionHandler().handle(Batch("cluster", "decisions", "inventory.decisions", 0, [copy]))
    assert dead_letters.discard(letter, DecisionHandler(), "noise") is None
    assert published("OrderNotPlaced") == []
    request = read_inventory(decision).request_id
    assert Order.objects.get(id=order_id_of(request)).state == "PENDING_PAYMENT"


def test_discard_and_replay_at_once_end_in_one_of_the_two(stock: Stock) -> None:
    letter = dead(reserved(stock))
    together(
        [
            lambda: dead_letters.discard(letter, DecisionHandler(), "never"),
            lambda: dead_letters.replay(letter, DecisionHandler()),
        ]
        * 2
    )
    letter.refresh_from_db()
    [state] = Order.objects.values_list("state", flat=True)
    assert (letter.state, state) in (("discarded", "NOT_PLACED"), ("replayed", "PENDING_PAYMENT"))
    assert len(published("OrderNotPlaced")) + len(published("OrderPlaced")) == 1


def test_without_the_handler_of_orders_the_units_stay_reserved(stock: Stock) -> None:
    """The control: the same dead letter, discarded without calling the handler."""
    decision = reserved(stock)
    letter = dead(decision)
    with mock.patch("seckill.messaging.dead_letters.isinstance", return_value=False, create=True):
        assert dead_letters.discard(letter, DecisionHandler(), "never") is None
    assert published("OrderNotPlaced") == []
    assert accounts(stock) == (2, 1, 0)
    assert shown(read_inventory(decision).request_id) == ("RESERVED", False)


def test_an_unreadable_decision_is_discarded_without_an_event(stock: Stock) -> None:
    """The report names the reservation without an order (I3)."""
    decision = reserved(stock)
    unreadable = decision._replace(version=99)
    assert dead_letters.discard(dead(unreadable), DecisionHandler(), "of a version that never was") is None
    assert Order.objects.count() == 0
    assert dead_letters.list_dead_letters(group="orders", state="discarded") != []
