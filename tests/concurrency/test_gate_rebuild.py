"""Rebuilding a gate in slices: other purchases go on meanwhile, and a failure leaves the old gate in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisAway

from inventory import gate, gate_rebuild, sweep
from inventory.models import GateSync, Stock
from tests.concurrency.stock_cast import (
    active_requests,
    assert_gate_agrees,
    create_stock,
    decide,
    forget_redis_clients,
    request,
    settle,
)
from tests.services import together

UNITS = 50


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def stock() -> Stock:
    return create_stock(UNITS)


def test_a_gate_is_rebuilt_in_slices_while_units_are_sold_and_returned(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two slices others buy and return units, before and behind the position of the rebuild."""
    monkeypatch.setattr(gate_rebuild, "SLICE_HOLDS_MAX", 3)
    monkeypatch.setattr(gate_rebuild, "LOCKED_CHANGES_MAX", 2)
    held = [request(stock, f"user-{number:02}") for number in range(10)]
    decide(held)
    late = [request(stock, f"user-{number:02}x") for number in range(10)]
    moves: list[Callable[[], None]] = []
    for number in range(4):
        moves.append(partial(settle, held[number * 2]))
        moves.append(partial(decide, [late[number * 2]], 20 + number))
    groups = iter([moves[:3], moves[3:6], moves[6:]])
    slices: list[int] = []

    def after_slice() -> None:
        slices.append(1)
        for move in next(groups, []):
            move()

    redis.flushall()
    with (
        mock.patch.object(gate_rebuild, "rebuild_after_commit"),
        mock.patch.object(gate_rebuild, "send_releases_after_commit"),
    ):
        assert gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch, after_slice)
    assert len(slices) >= 4
    assert_gate_agrees(redis, stock)
    assert len(active_requests(stock)) == 10


def test_the_row_is_not_locked_while_its_holds_are_read(stock: Stock, redis: Redis) -> None:
    decide([request(stock, f"user-{number}") for number in range(10)])

    def after_slice() -> None:
        assert together([partial(decide, [request(stock, "another")], 100)]) == [None]

    with mock.patch.object(gate_rebuild, "rebuild_after_commit"):
        assert gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch, after_slice)
    assert_gate_agrees(redis, stock)


def test_an_epoch_that_redis_lost_while_it_was_built_is_not_opened(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_rebuild, "SLICE_HOLDS_MAX", 3)
    decide([request(stock, f"user-{number}") for number in range(10)])
    with pytest.raises(gate.EpochLost):
        gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch, redis.flushall)
    assert not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch)
    sweep.run_once()
    assert_gate_agrees(redis, stock)


def test_a_gate_that_cannot_be_rebuilt_does_not_stop_the_sweep_from_rebuilding_others(
    stock: Stock, redis: Redis
) -> None:
    other = create_stock(UNITS, "Bell")
    redis.flushall()
    rebuild_gate = gate_rebuild.rebuild_gate

    def fail_for_one(stock_id: int, *more: Any, **named: Any) -> bool:
        if stock_id == stock.id:
            raise RedisAway("away")
        return rebuild_gate(stock_id, *more, **named)

    with mock.patch.object(gate_rebuild, "rebuild_gate", fail_for_one):
        sweep.run_once()
    assert_gate_agrees(redis, other)
    sweep.run_once()
    assert_gate_agrees(redis, stock)


def test_only_the_sweep_rebuilds_the_gate_of_a_large_sale(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer would otherwise read a million holds after each batch."""
    decide([request(stock, "ann")])
    monkeypatch.setattr(gate_rebuild, "CONSUMER_REBUILD_UNITS_MAX", 0)
    redis.flushall()
    decide([request(stock, "bob")], 1)
    stock.refresh_from_db()
    assert not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch)
    sweep.run_once()
    assert_gate_agrees(redis, stock)


def test_processes_that_send_the_same_releases_do_not_wait_for_each_other(stock: Stock) -> None:
    GateSync.objects.bulk_create([GateSync(stock=stock, request_id=uuid4()) for _ in range(500)])
    sent = together([partial(gate_rebuild.send_releases, stock.id)] * 4)
    assert all(isinstance(each, int) for each in sent), sent
    while gate_rebuild.send_releases(stock.id):
        pass
    assert not GateSync.objects.exists()
