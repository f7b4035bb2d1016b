"""Batches that touch two sales on a real Postgres: all transactions take their locks in one order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from unittest import mock
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from gateway.events import PurchaseRequested
from gateway.outcomes import Event, find_outcomes, project_events
from inventory import gate, reservation, sale_commands, settlement
from inventory.events import Decision, PurchaseDecided, UnitsReleased
from inventory.handlers import SettlementHandler
from inventory.models import GateSync, Hold, Stock
from orders.events import OrderChanged, OrderEvent
from seckill.messaging import binary_sql
from seckill.messaging.records import Batch, ReceivedRecord
from tests.services import together

FAR_MS = 10**15
BUYERS = 60


@pytest.fixture(autouse=True)
def fresh_gate() -> None:
    gate.redis.cache_clear()
    gate._script.cache_clear()


@pytest.fixture
def sales() -> list[Stock]:
    return [sale_commands.create_sale(name, "phone", 2 * BUYERS, 100, 1, 0, FAR_MS) for name in ("Gong", "Bell")]


def request(stock: Stock, user: str) -> PurchaseRequested:
    return PurchaseRequested(uuid4(), user, stock.sale_id, stock.sku, 1, 0, FAR_MS)


def requests_of(partition: int, requests: Iterable[PurchaseRequested]) -> Batch:
    records = [
        ReceivedRecord("purchase.requests", partition, at, 0, each.user_id, each.envelope())
        for at, each in enumerate(requests)
    ]
    return Batch("cluster", "topic-id", "purchase.requests", partition, records)


def ends_of(asked: Iterable[PurchaseRequested], event: OrderEvent) -> Batch:
    changes = [
        OrderChanged(event, uuid4(), each.request_id, each.user_id, each.sale_id, each.sku, 1, 100, 0, 0)
        for each in asked
    ]
    records = [
        ReceivedRecord("order.events", 0, at, 0, each.user_id, each.envelope(None, None))
        for at, each in enumerate(changes)
    ]
    return Batch("cluster", "other-id", "order.events", 0, records)


def once(work: Callable[[Batch], None], batch: Batch) -> None:
    with transaction.atomic():
        work(batch)


def held(sales: list[Stock], count: int = BUYERS) -> list[PurchaseRequested]:
    """Reservations of both sales, alternating."""
    asked = [request(sales[number % 2], f"user-{number}") for number in range(count)]
    once(reservation.decide_batch, requests_of(0, asked))
    return asked


# ── stock rows ───────────────────────────────────────────────────────────────────────────────────


def test_concurrent_batches_of_two_sales_do_not_deadlock(sales: list[Stock]) -> None:
    asked = held(sales, 4 * 30)
    settle = SettlementHandler().handle
    batches: list[Callable[[], None]] = []
    for number in range(4):
        mine = asked[30 * number : 30 * (number + 1)]
        kind = OrderEvent.PAID if number % 2 else OrderEvent.EXPIRED
        batches.append(partial(once, settle, ends_of(mine if number < 2 else mine[::-1], kind)))
        new = [request(sales[(number + at) % 2], f"new-{number}-{at}") for at in range(20)]
        batches.append(partial(once, reservation.decide_batch, requests_of(number + 1, new)))
    assert together(batches) == [None] * len(batches)
    for stock in sales:
        stock.refresh_from_db()
        assert (stock.reserved, stock.sold) == (40, 30)
        assert Hold.objects.filter(stock=stock, state="sold").count() == 30


def test_batches_that_lock_rows_in_opposite_orders_deadlock(sales: list[Stock]) -> None:
    """The control: without the order of the locks the test above deadlocks."""
    asked = held(sales, 4)
    both_hold_one = threading.Barrier(2)
    turns = count()

    def in_any_order(ids: Iterable[int]) -> dict[int, Stock]:
        rows: dict[int, Stock] = {}
        for number in sorted(set(ids), reverse=bool(next(turns) % 2)):
            rows[number] = Stock.objects.select_related("sale").select_for_update(of=("self",)).get(id=number)
            if len(rows) == 1:
                both_hold_one.wait(10)
        return rows

    with mock.patch.object(settlement, "lock_stocks", in_any_order):
        settle = SettlementHandler().handle
        results = together([partial(once, settle, ends_of(mine, OrderEvent.PAID)) for mine in (asked[:2], asked[2:])])
    assert sum(isinstance(result, OperationalError) and "deadlock" in str(result) for result in results) == 1


def test_a_large_batch_of_settlements_needs_as_many_statements_as_a_small_one(sales: list[Stock]) -> None:
    asked = held(sales)
    for stock in sales:
        stock.refresh_from_db()
    counts = []
    for chosen in (asked[:2], asked[2:]):
        with (
            mock.patch("inventory.sale_view.publish_view") as shown,
            CaptureQueriesContext(connection) as through_django,
            mock.patch("seckill.messaging.binary_sql._run", wraps=binary_sql._run) as ours,
        ):
            once(SettlementHandler().handle, ends_of(chosen, OrderEvent.EXPIRED))
        assert shown.call_count == 2  # once for each sale
        counts.append(len(through_django) + ours.call_count)
    assert counts[0] == counts[1] < 30
    assert not GateSync.objects.exists()


def test_an_event_that_is_twice_in_a_batch_moves_its_units_once(sales: list[Stock]) -> None:
    asked = held(sales, 2)
    batch = ends_of(asked, OrderEvent.EXPIRED)
    once(SettlementHandler().handle, replace(batch, records=[*batch.records, *batch.records]))
    once(SettlementHandler().handle, batch)
    for stock in sales:
        stock.refresh_from_db()
        assert (stock.available, stock.reserved) == (2 * BUYERS, 0)


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────


def test_concurrent_projections_of_the_same_buyers_do_not_deadlock(
    sales: list[Stock],
) -> None:
    """One batch changes states, another one sets `may_buy_again`."""
    sale_id = sales[0].sale_id

    def projected(events: Sequence[Event]) -> None:
        with transaction.atomic():
            project_events(events)

    for _ in range(6):
        ids = sorted(uuid4() for _ in range(1000))
        decided = [PurchaseDecided(each, "ann", sale_id, "phone", 1, 1, Decision.RESERVED, 2, 0) for each in ids]
        released = [UnitsReleased(each, "ann", sale_id, "phone", 1, "expired", 2) for each in ids]
        expired = [OrderChanged(OrderEvent.EXPIRED, uuid4(), each, "ann", sale_id, "phone", 1, 1, 0, 0) for each in ids]
        projected(decided)
        works: list[Sequence[Event]] = [expired, [*decided[500:], *released[:500]], released[500:]]
        assert together([partial(projected, events) for events in works]) == [None] * 3
        last = find_outcomes(ids[:1]).get(ids[0])
        assert last is not None and last.state == "EXPIRED" and last.may_buy_again


def test_a_release_that_arrives_before_its_decision_is_not_lost(sales: list[Stock]) -> None:
    """Its decision may be a dead letter."""
    request_id = uuid4()
    project_events([UnitsReleased(request_id, "ann", sales[0].sale_id, "phone", 1, "expired", 2)])
    project_events(
        [OrderChanged(OrderEvent.EXPIRED, uuid4(), request_id, "ann", sales[0].sale_id, "phone", 1, 100, 0, 0)]
    )
    row = find_outcomes([request_id])[request_id]
    assert row.may_buy_again and row.is_final
