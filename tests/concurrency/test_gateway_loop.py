"""One blocking call on the event loop stops every purchase. These tests find such calls, and show that they would."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.utils import OperationalError
from redis import Redis
from redis.connection import AbstractConnection

from gateway import outcome_cache, sales, signed_positions
from gateway.outcomes import project_events
from gateway.purchase import Purchases
from gateway.signed_positions import SignedPosition
from seckill.messaging.record_position import RecordPosition
from seckill.web import tokens
from tests.concurrency.gateway_purchase_cast import SALE, Writer, buy, call, open_sale
from tests.concurrency.gateway_reading_cast import decided, make_monitor
from tests.gateway_loop import LOOP, ApiClient, make_gateway, on_loop

BLOCKING: list[tuple[Any, str]] = [
    (time, "sleep"), (threading.Thread, "join"), (socket, "create_connection"),
    (AbstractConnection, "send_packed_command"),
]  # fmt: skip
"""Calls that wait for another thread or server. Django itself refuses the database on a running loop."""


class BlockedLoop(AssertionError):
    pass


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of blocking calls that were made on the loop; each also fails there."""
    found: list[str] = []

    def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any, **named: Any) -> Any:
            if asyncio._get_running_loop() is LOOP:
                found.append(name)
                raise BlockedLoop(name)
            return call(*arguments, **named)

        return guard

    for owner, name in BLOCKING:
        monkeypatch.setattr(owner, name, guarded(name, getattr(owner, name)))
    return found


@pytest.fixture
def gateway(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    open_sale(redis, monkeypatch)
    make_monitor(monkeypatch)
    yield make_gateway(Writer())


def test_nothing_that_buyers_call_blocks_the_loop(gateway: Any, redis: Redis, blocked: list[str]) -> None:
    """Every route of the loop, with everything in memory and with everything to be fetched."""
    ann = ApiClient(gateway, HTTP_AUTHORIZATION=f"Bearer {tokens.issue_token('ann')}")
    assert buy(gateway.purchases, call()).request_id
    request_id = uuid4()
    project_events([decided(request_id)])  # in the table only
    outcome_cache.store_outcomes(project_events([decided(projected := uuid4())]), notify=True)
    place = signed_positions.sign_position(
        request_id, SignedPosition("ann", RecordPosition("purchase.requests", 0, 50), 99)
    )
    for is_fresh in (True, False):
        if not is_fresh:
            sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600
        statuses = [
            ann.get(address).status_code
            for address in (
                "/livez", "/api/v1/sales", f"/api/v1/sales/{SALE.id}", "/api/v1/sales/999999",
                f"/api/v1/purchases/{request_id}?place={place}", f"/api/v1/purchases/{projected}",
                f"/api/v1/purchases/{uuid4()}",
            )
        ]  # fmt: skip
        assert 500 not in statuses
        assert statuses[4:] == [200, 200, 404]
    redis.flushall()  # what Redis has forgotten is looked up in the table
    buy_or_refuse(gateway.purchases)
    assert blocked == []


def buy_or_refuse(purchases: Purchases) -> None:
    from seckill.web.problems import Problem

    try:
        buy(purchases, call("bob"))
    except Problem:
        pass


def test_the_search_finds_a_blocking_call(gateway: Any, blocked: list[str]) -> None:
    """The control: the synchronous look-up of a sale, called on the loop."""

    async def look_up() -> None:
        sales._look_up(SALE.id)

    with pytest.raises(BlockedLoop):
        on_loop(look_up())
    assert blocked == ["send_packed_command"]


def test_django_refuses_the_database_on_the_loop() -> None:
    async def query() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    with pytest.raises(Exception, match="async context") as refused:
        on_loop(query())
    assert not isinstance(refused.value, OperationalError)
