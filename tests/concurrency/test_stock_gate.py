"""The gate beside the stock row: whatever happens to Redis, the row decides and the gate is corrected afterwards."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from unittest import mock

import pytest
from redis import Redis

from inventory import gate, gate_rebuild, sweep
from inventory.events import SaleView, view_key
from inventory.models import DecidedRequest, Stock
from tests.concurrency.stock_cast import (
    active_requests,
    create_stock,
    crowd,
    decide,
    decisions,
    forget_redis_clients,
    free_units,
    granted_requests,
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


# ── the gate agrees with the holds ───────────────────────────────────────────────────────────────


def test_after_a_rush_and_a_return_the_gate_remembers_exactly_the_active_purchases(stock: Stock, redis: Redis) -> None:
    together(crowd(stock))
    assert granted_requests(redis, stock) == active_requests(stock)
    first = DecidedRequest.objects.filter(decision="RESERVED").first()
    assert first is not None
    settle(request(stock, first.user_id, request_id=first.request_id))
    assert granted_requests(redis, stock) == active_requests(stock)
    assert len(active_requests(stock)) == UNITS - 1


def test_a_gate_counter_that_is_too_high_sells_nothing_extra_and_is_corrected(stock: Stock, redis: Redis) -> None:
    redis.incrby(gate.keys(stock.sale_id, stock.sku, 1)[0], 50)
    together(crowd(stock))
    assert decisions()["RESERVED"] == UNITS
    assert granted_requests(redis, stock) == active_requests(stock)
    assert free_units(redis, stock) == 0


def test_a_gate_counter_that_is_too_low_hides_no_unit(stock: Stock, redis: Redis) -> None:
    redis.set(gate.keys(stock.sale_id, stock.sku, 1)[0], 0)
    decide([request(stock, "ann")])
    assert decisions() == {"RESERVED": 1}


def test_without_units_the_gate_is_not_asked_and_a_returned_unit_is_still_sold(stock: Stock, redis: Redis) -> None:
    asked = [request(stock, f"user-{number}") for number in range(UNITS)]
    decide(asked)
    with mock.patch.object(gate, "propose", side_effect=AssertionError("the gate was asked")):
        decide([request(stock, "late")], start=UNITS)
    settle(asked[0])
    decide([request(stock, "later")], start=UNITS + 1)
    assert decisions() == {"RESERVED": UNITS + 1, "SOLD_OUT": 1}
    assert granted_requests(redis, stock) == active_requests(stock)


# ── Redis loses its data ─────────────────────────────────────────────────────────────────────────


def test_after_flushall_the_gate_is_closed_not_sold_out_and_is_rebuilt(stock: Stock, redis: Redis) -> None:
    decide([request(stock, "ann")])
    redis.flushall()
    decide([request(stock, "bob")], start=1)
    assert decisions() == {"RESERVED": 2}
    assert granted_requests(redis, stock) == active_requests(stock)


def test_after_flushall_the_sweep_publishes_the_sale_and_rebuilds_its_gate_once(stock: Stock, redis: Redis) -> None:
    decide([request(stock, "ann")])
    redis.flushall()
    sweep.run_once()
    assert SaleView.decode(str(redis.get(view_key(stock.sale_id)))).reserved == 1
    assert granted_requests(redis, stock) == active_requests(stock)
    assert_no_rebuild(stock)


def test_a_redis_restarted_with_old_data_is_rebuilt_once(stock: Stock, redis: Redis) -> None:
    """Its data looks complete, so only the new run id shows that it may be old."""
    decide([request(stock, "ann")])
    sweep.run_once()
    stock.refresh_from_db()
    free, grants = gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)
    redis.incr(free)
    redis.delete(grants)
    sweep.run_once()
    assert granted_requests(redis, stock) != active_requests(stock), "the control: with the same run id it stays wrong"
    redis.set(gate.SYNCED_RUN_KEY, "another run id")
    sweep.run_once()
    assert granted_requests(redis, stock) == active_requests(stock)
    assert_no_rebuild(stock)


def assert_no_rebuild(stock: Stock) -> None:
    """The next run of the sweep leaves the gate alone."""
    stock.refresh_from_db()
    epoch = stock.gate_epoch
    sweep.run_once()
    stock.refresh_from_db()
    assert stock.gate_epoch == epoch


# ── rebuilds beside other work ───────────────────────────────────────────────────────────────────


def test_a_gate_rebuilt_between_proposal_and_lock_still_gets_the_grant(stock: Stock, redis: Redis) -> None:
    stock.refresh_from_db()
    epoch, propose = stock.gate_epoch, gate.propose

    def propose_then_rebuild(*arguments: Any) -> list[gate.Proposal]:
        proposals = propose(*arguments)
        assert together([partial(gate_rebuild.rebuild_gate, stock.id, epoch)]) == [True]
        return proposals

    with mock.patch.object(gate, "propose", propose_then_rebuild):
        decide([request(stock, "ann")])
    assert len(active_requests(stock)) == 1
    assert granted_requests(redis, stock) == active_requests(stock)


def test_the_sweep_does_the_rebuild_of_a_process_that_died_before_it(stock: Stock, redis: Redis) -> None:
    redis.set(gate.keys(stock.sale_id, stock.sku, 1)[0], 0)
    with mock.patch.object(gate_rebuild, "rebuild_after_commit"):
        decide([request(stock, "ann")])
    assert granted_requests(redis, stock) != active_requests(stock)
    sweep.run_once()
    assert granted_requests(redis, stock) == active_requests(stock)


def test_a_return_that_commits_during_a_rebuild_is_not_lost(stock: Stock, redis: Redis) -> None:
    """A process is sending Ann's return when the gate is rebuilt and Bob's return commits."""
    ann, bob = request(stock, "ann"), request(stock, "bob")
    decide([ann, bob])
    get_stock = Stock.objects.get

    def get_then_rebuild(**conditions: Any) -> Stock:
        found = get_stock(**conditions)
        assert together([partial(gate_rebuild.rebuild_gate, stock.id, found.gate_epoch)]) == [True]
        settle(bob)
        return found

    with mock.patch.object(gate_rebuild, "send_releases_after_commit"):
        settle(ann)
        with mock.patch.object(Stock.objects, "get", get_then_rebuild):
            gate_rebuild.send_releases(stock.id)
    gate_rebuild.send_releases(stock.id)
    assert granted_requests(redis, stock) == active_requests(stock) == set()


def test_four_processes_that_find_the_gate_wrong_rebuild_it_once(stock: Stock) -> None:
    stock.refresh_from_db()
    epoch = stock.gate_epoch
    rebuilt = together([partial(gate_rebuild.rebuild_gate, stock.id, epoch)] * 4)
    assert Counter(rebuilt) == {True: 1, False: 3}
    stock.refresh_from_db()
    assert stock.gate_epoch == epoch + 1


def test_the_keys_of_an_old_epoch_expire_and_those_of_the_current_one_do_not(stock: Stock, redis: Redis) -> None:
    stock.refresh_from_db()
    old = gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)
    decide([request(stock, "ann")])
    gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch)
    stock.refresh_from_db()
    assert all(0 < int(redis.pttl(key)) <= gate.OLD_EPOCH_KEPT_MS for key in old)
    assert [redis.pttl(key) for key in gate.keys(stock.sale_id, stock.sku, stock.gate_epoch)] == [-1, -1]
