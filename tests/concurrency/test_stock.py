"""Concurrent batches on a real Postgres: what must hold, and for each guard the proof that it is the guard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest import mock
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from inventory import batch_sql, gate, reservation, sale_commands
from inventory.events import Decision
from inventory.handlers import PurchaseRequestHandler
from inventory.models import DecidedRequest, Hold, LedgerEntry, Redelivery, Stock
from seckill.messaging import binary_sql
from seckill.messaging.models import OutboxRow
from tests.concurrency import stock_cast
from tests.concurrency.stock_cast import (
    FAR_MS,
    batch_of,
    create_stock,
    crowd,
    decide,
    decisions,
    forget_redis_clients,
    request,
    settle,
)
from tests.services import together

UNITS = 10


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def stock() -> Stock:
    return create_stock(UNITS)


assert_books_balance = partial(stock_cast.assert_books_balance, units=UNITS)


@contextmanager
def without_constraints(*constraints: tuple[str, str, str]) -> Iterator[None]:
    """Drop (table, name, definition) for the duration. All rows of inventory are deleted afterwards."""
    with connection.cursor() as cursor:
        for table, name, _ in constraints:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    yield
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE inventory_decided, inventory_hold, inventory_ledger, inventory_gate_sync, inventory_stock CASCADE"
        )
        for table, name, definition in constraints:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")


# ── the row's lock ───────────────────────────────────────────────────────────────────────────────


def test_concurrent_batches_sell_each_unit_once(stock: Stock) -> None:
    assert together(crowd(stock)) == [None] * 8
    assert decisions() == {"RESERVED": UNITS, "SOLD_OUT": 30}
    assert_books_balance(stock, reserved=UNITS)


def closed_gate(sale_id: int, sku: str, epoch: int, requests: list[tuple[UUID, int]]) -> list[gate.Proposal]:
    """Leaves the decision to the row alone."""
    return [gate.Proposal.CLOSED for _ in requests]


def test_without_the_lock_the_same_crowd_oversells(stock: Stock) -> None:
    """The control: read, then write, without lock, version and check. All batches have read before one writes."""
    batches = crowd(stock)

    def read_without_lock(ids: object) -> dict[int, Stock]:
        found = {each.id: each for each in Stock.objects.select_related("sale").filter(id__in=set(ids))}  # type: ignore[call-overload]
        all_have_read.wait()
        return found

    def write_without_condition(stock: Stock, granted: list[reservation.ArrivedRequest]) -> None:
        units = sum(each.request.quantity for each in granted)
        Stock.objects.filter(id=stock.id).update(available=stock.available - units, reserved=stock.reserved + units)

    all_have_read = threading.Barrier(len(batches), timeout=30)
    guards = (
        ("inventory_stock", "inventory_stock_never_negative", "CHECK (available >= 0 AND reserved >= 0 AND sold >= 0)"),
        ("inventory_ledger", "inventory_ledger_version", "UNIQUE (stock_id, version)"),
    )
    with (
        without_constraints(*guards),
        mock.patch.object(reservation, "lock_stocks", read_without_lock),
        mock.patch.object(reservation, "_move_to_reserved", write_without_condition),
        mock.patch.object(gate, "propose", side_effect=closed_gate),
    ):
        assert together(batches) == [None] * len(batches)
        assert Hold.objects.count() > UNITS


def test_a_decision_stays_although_its_sale_view_cannot_be_published(stock: Stock) -> None:
    """Redis fails after COMMIT. An exception from there would look as if the batch had failed."""
    with mock.patch("inventory.sale_view.publish_view", side_effect=ConnectionError("Redis is away")) as publish:
        decide([request(stock, "user")])
    assert publish.called and decisions() == {"RESERVED": 1}


def test_units_are_never_granted_without_the_lock_of_their_row(stock: Stock) -> None:
    with (
        mock.patch.object(reservation, "_may_grant", return_value=False),
        pytest.raises(RuntimeError, match="without its lock"),
    ):
        decide([request(stock, "user")])
    assert not Hold.objects.exists()


def test_each_sold_out_decision_names_a_version_with_too_few_units(stock: Stock) -> None:
    together(crowd(stock))
    available = {0: 0}
    for entry in LedgerEntry.objects.filter(stock=stock).order_by("version"):
        change = entry.units if entry.credit == "available" else -entry.units
        available[entry.version] = available[entry.version - 1] + change
    rejected = DecidedRequest.objects.filter(decision=Decision.SOLD_OUT)
    assert rejected.count() == 30
    assert all(available[each.stock_version] < each.quantity for each in rejected)


# ── one purchase of a user ───────────────────────────────────────────────────────────────────────


def test_a_user_in_many_concurrent_batches_gets_one_unit(stock: Stock) -> None:
    """A key belongs to one partition, so this needs a fenced consumer. The partial unique index is the last guard."""
    together([partial(decide, [request(stock, "greedy")], partition=partition) for partition in range(6)])
    assert Hold.objects.filter(user_id="greedy").count() == 1


# ── the inbox ────────────────────────────────────────────────────────────────────────────────────


def test_a_redelivered_request_keeps_its_decision_and_changes_nothing(stock: Stock) -> None:
    asked = request(stock, "ann")
    decide([asked])
    decide([asked, request(stock, "bob")], start=1)
    assert decisions() == {"RESERVED": 2}
    assert Redelivery.objects.count() == 1
    assert_books_balance(stock, reserved=2)


def test_a_redelivered_old_request_keeps_its_decision_after_the_user_bought_again(stock: Stock) -> None:
    old, new = request(stock, "ann"), request(stock, "ann")
    decide([old])
    settle(old)
    decide([new], start=1)
    decide([old], start=2)
    assert decisions() == {"RESERVED": 2}
    assert list(Hold.objects.filter(state="reserved").values_list("request_id", flat=True)) == [new.request_id]
    stock.refresh_from_db()
    assert (stock.available, stock.reserved) == (UNITS - 1, 1)


def test_without_the_inbox_a_redelivered_request_gets_a_second_decision(stock: Stock) -> None:
    """The control: without the lookup and without the primary key behind it."""
    asked = request(stock, "ann")
    with without_constraints(("inventory_decided", "inventory_decided_pkey", "PRIMARY KEY (request_id)")):
        decide([asked])
        with mock.patch.object(batch_sql, "find_decided_requests", lambda requests: set()):
            decide([asked], start=1)
        found = DecidedRequest.objects.filter(request_id=asked.request_id)
        assert sorted(found.values_list("decision", flat=True)) == ["DUPLICATE", "RESERVED"]


def test_behind_the_inbox_the_primary_key_refuses_a_second_decision(stock: Stock) -> None:
    asked = request(stock, "ann")
    decide([asked])
    with (
        mock.patch.object(batch_sql, "find_decided_requests", lambda requests: set()),
        pytest.raises(batch_sql.ConcurrentUpdate),
        transaction.atomic(),
    ):
        reservation.decide_batch(batch_of([asked], start=1))
    assert decisions() == {"RESERVED": 1}


def test_only_a_unique_violation_is_a_concurrent_update(stock: Stock) -> None:
    """A concurrent update is retried. A bug that violates another constraint would be retried without end."""
    entry = (stock.version + 1, 1, uuid4())

    def insert(entry: tuple[int, int, UUID]) -> None:
        with transaction.atomic(), batch_sql.unique_violations_as_conflicts():
            batch_sql.insert_reservations(stock.id, [entry])

    insert(entry)
    with pytest.raises(batch_sql.ConcurrentUpdate):
        insert(entry)
    with pytest.raises(IntegrityError, match="inventory_ledger_moves"):
        insert((stock.version + 2, 0, uuid4()))


@pytest.mark.parametrize("column", ["request_id", "user_id"])
def test_lookups_use_the_index_although_the_statistics_describe_an_empty_table(column: str) -> None:
    """In a rush a table grows faster than Postgres analyses it."""
    stock = create_stock(2000)
    decide([request(stock, f"user-{number}") for number in range(2000)])
    lookups: dict[str, tuple[str, list[Any]]] = {
        "request_id": (batch_sql._FIND_DECIDED_REQUESTS, [[uuid4()] * 500]),
        "user_id": (batch_sql._FIND_ACTIVE_BUYERS, [["user"] * 500, stock.sale_id]),
    }
    statement, parameters = lookups[column]
    plan = [row[0] for row in binary_sql.fetch(f"EXPLAIN {statement}", parameters)]
    assert any("Index Cond" in line and f"= requested.{column})" in line for line in plan), plan


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────


def test_a_discarded_request_is_decided_invalid_and_the_stock_is_unchanged(stock: Stock) -> None:
    with transaction.atomic():
        PurchaseRequestHandler().on_discard(batch_of([request(stock, "ann")]))
    assert decisions() == {"INVALID": 1}
    assert OutboxRow.objects.count() == 1
    assert_books_balance(stock, reserved=0)


def test_a_discarded_request_that_was_decided_meanwhile_keeps_its_decision(stock: Stock) -> None:
    asked = request(stock, "ann")
    decide([asked])
    with transaction.atomic():
        PurchaseRequestHandler().on_discard(batch_of([asked], start=1))
    assert decisions() == {"RESERVED": 1}
    assert_books_balance(stock, reserved=1)


# ── states and clocks ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE inventory_sale SET state = 'opened'",
        "UPDATE inventory_hold SET state = 'RESERVED'",
        "UPDATE inventory_ledger SET credit = 'stolen'",
        "UPDATE inventory_ledger SET kind = 'gift'",
        "UPDATE inventory_decided SET decision = 'MAYBE'",
    ],
)
def test_the_database_refuses_a_state_that_does_not_exist(stock: Stock, statement: str) -> None:
    decide([request(stock, "ann")])
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_an_operators_clock_a_minute_ahead_opens_a_sale_at_the_databases_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, now()")
        before_ms, before = cursor.fetchone()
    real_now: Callable[[], datetime] = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real_now() + timedelta(minutes=1))
    monkeypatch.setattr("time.time", lambda: real_now().timestamp() + 60)
    stock = sale_commands.create_sale_in("Gong", "phone", 1, 100, 1, opens_in_s=0, lasts_s=60)
    sale_commands.set_sale_state(stock.sale_id, "closed")
    sale, entry = Stock.objects.get().sale, LedgerEntry.objects.get()
    assert sale.closed_at_ms is not None
    limit = timedelta(seconds=30)
    assert before_ms <= sale.opens_at_ms <= sale.closed_at_ms < before_ms + limit.total_seconds() * 1000
    assert before <= entry.at < before + limit


def test_a_sale_that_never_ends_is_too_far_away() -> None:
    with pytest.raises(sale_commands.SaleCommandRejected, match="must end before"):
        sale_commands.create_sale("Gong", "phone", 1, 100, 1, 0, FAR_MS * 100)
