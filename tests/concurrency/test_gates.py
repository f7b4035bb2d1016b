"""The gate over time: sales that have ended, and grants that no purchase has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from redis import Redis

from gateway.events import PurchaseRequested
from inventory import gate, sale_commands, sweep
from inventory.handlers import PurchaseRequestHandler
from inventory.models import DecidedRequest, GateSync, Sale, Stock
from seckill.messaging import dead_letters, offsets
from seckill.messaging.batch_worker import CRASHES_MAX, BatchWorker
from seckill.messaging.models import DeadLetter
from tests.concurrency.stock_cast import (
    active_requests,
    assert_gate_agrees,
    create_stock,
    decide,
    forget_redis_clients,
    granted_requests,
    request,
    settle,
)

UNITS = 50


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def stock() -> Stock:
    return create_stock(UNITS)


# ── sales that have ended ────────────────────────────────────────────────────────────────────────


def test_the_lost_gate_of_a_closed_sale_is_retired_and_not_rebuilt(stock: Stock, redis: Redis) -> None:
    decide([request(stock, "ann")])
    sweep.run_once()
    sale_commands.set_sale_state(stock.sale_id, "closed")
    sweep.run_once()
    stock.refresh_from_db()
    assert not stock.gate_retired, "the gate stays for an hour, so that a report can compare it"
    assert_gate_agrees(redis, stock)
    epoch = stock.gate_epoch
    redis.flushall()
    decide([request(stock, "bob")], 1)
    sweep.run_once()
    stock.refresh_from_db()
    assert (stock.gate_retired, stock.gate_epoch) == (True, epoch)
    assert DecidedRequest.objects.get(user_id="bob").decision == "CLOSED"
    with mock.patch.object(gate, "propose") as propose:
        decide([request(stock, "cleo")], 2)
    assert not propose.called


@pytest.mark.parametrize("end", ["closed by an operator", "window over"])
def test_an_hour_after_its_end_a_sale_has_no_keys_in_the_gate(stock: Stock, redis: Redis, end: str) -> None:
    decide([request(stock, "ann")])
    sale = Sale.objects.filter(id=stock.sale_id)
    if end == "closed by an operator":
        sale_commands.set_sale_state(stock.sale_id, "closed")
        sale.update(closed_at_ms=1)
    else:
        sale.update(closes_at_ms=1)
    sweep.run_once()
    stock.refresh_from_db()
    assert stock.gate_retired
    assert not [key for key in redis.scan_iter() if ":gate:" in str(key) and redis.ttl(str(key)) == -1]


def test_a_unit_returned_to_a_retired_sale_leaves_no_release_behind(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    decide([asked])
    sale_commands.set_sale_state(stock.sale_id, "closed")
    redis.flushall()
    sweep.run_once()
    settle(asked)
    sweep.run_once()
    assert not GateSync.objects.exists()


def test_a_retired_sale_that_grants_a_late_request_gets_a_gate_again(stock: Stock, redis: Redis) -> None:
    """The deadline of a request may lie after the end of the sale's window."""
    Stock.objects.filter(id=stock.id).update(gate_retired=True)
    decide([request(stock, "ann")])
    stock.refresh_from_db()
    assert not stock.gate_retired
    assert_gate_agrees(redis, stock)


# ── grants that no purchase has ──────────────────────────────────────────────────────────────────


def propose(stock: Stock, asked: PurchaseRequested) -> None:
    """A process asks the gate, and dies."""
    stock.refresh_from_db()
    proposals = gate.propose(stock.sale_id, stock.sku, stock.gate_epoch, [(asked.request_id, 1)])
    assert proposals == [gate.Proposal.GRANTED]


def test_the_grant_of_a_request_that_another_process_rejected_is_given_back(stock: Stock, redis: Redis) -> None:
    """One process pauses before it asks the gate. Another rejects the same request, and units are returned."""
    sold = [request(stock, f"user-{number}") for number in range(UNITS)]
    decide(sold)
    paused = request(stock, "paused")
    decide([paused], 100)
    assert DecidedRequest.objects.get(user_id="paused").decision == "SOLD_OUT"
    settle(sold[0])
    sweep.run_once()
    propose(stock, paused)
    assert granted_requests(redis, stock) != active_requests(stock)
    sweep.run_once()
    assert_gate_agrees(redis, stock)


def test_the_grant_of_an_undecided_request_stays(stock: Stock, redis: Redis) -> None:
    sweep.run_once()
    asked = request(stock, "ann")
    propose(stock, asked)
    sweep.run_once()
    assert granted_requests(redis, stock) == {str(asked.request_id)}
    decide([asked])
    assert_gate_agrees(redis, stock)


def kafka_record(asked: PurchaseRequested, offset: int) -> Any:
    return SimpleNamespace(
        topic="purchase.requests", partition=0, offset=offset, timestamp=0, key=asked.user_id.encode(),
        value=asked.envelope().encode(), headers=[],
    )  # fmt: skip


def make_dead_letter(asked: PurchaseRequested) -> int:
    """The request has crashed its consumer too often and becomes a dead letter. Returns the next offset."""
    claim = offsets.claim_partition("cluster", "topic-id", "purchase.requests", 0, "inventory", 0)
    crashed = claim._replace(crash_count=CRASHES_MAX)
    return BatchWorker(PurchaseRequestHandler()).process(crashed, [kafka_record(asked, 0)], 0)


def test_the_grant_of_a_request_that_crashed_its_consumer_goes_to_others(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    propose(stock, asked)
    make_dead_letter(asked)
    letter = DeadLetter.objects.get()
    assert_gate_agrees(redis, stock)
    propose(stock, asked)  # by a process that paused until now
    assert dead_letters.discard(letter, PurchaseRequestHandler(), "a test") is None
    assert DecidedRequest.objects.get().decision == "INVALID"
    assert_gate_agrees(redis, stock)


def test_a_dead_letter_that_is_replayed_gets_its_unit(stock: Stock, redis: Redis) -> None:
    asked = request(stock, "ann")
    propose(stock, asked)
    make_dead_letter(asked)
    assert dead_letters.replay(DeadLetter.objects.get(), PurchaseRequestHandler()) is None
    assert active_requests(stock) == {str(asked.request_id)}
    assert_gate_agrees(redis, stock)


def test_a_request_becomes_a_dead_letter_although_its_grant_cannot_be_given_back(stock: Stock) -> None:
    with mock.patch("inventory.handlers.release_dead_letter_grants", side_effect=ValueError("a bug")):
        assert make_dead_letter(request(stock, "ann")) == 1
    assert DeadLetter.objects.count() == 1
