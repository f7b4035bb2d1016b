"""Redis takes connections and answers nothing: inventory decides by the row, and waits for Redis once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings
from redis.exceptions import RedisError

from inventory import gate, operating, rebuild, views
from inventory.models import Decided
from tests.concurrency.test_stock import batch, request, work
from tests.unit.seckill.test_bounded_redis import Silent

BATCHES = 8


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    server = Silent()
    hanging = replace(settings.ENVIRONMENT, gate_redis_url=server.url, admission_redis_url=server.url)
    monkeypatch.setattr(settings, "ENVIRONMENT", hanging)
    caches = (gate.redis, gate._script, views._client)
    for cache in caches:
        cache.cache_clear()
    yield server
    for cache in caches:
        cache.cache_clear()
    server.close()


def test_batches_are_decided_although_redis_hangs_and_each_client_waits_for_it_once(silent: Silent) -> None:
    stock = operating.create("Gong", "phone", 10, 100, 1, 0, 10**15)
    for number in range(BATCHES):
        work(batch(number, [request(stock, f"user-{number}")]))
    assert Decided.objects.filter(decision="RESERVED").count() == BATCHES
    assert len(silent.connections) <= 2 * 2, "of two clients, each tried again at most once after its rest"


def test_the_lock_of_the_stock_is_not_held_while_redis_is_waited_for(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting the gate anew fails before it locks the row: another one could lock it at any moment."""
    stock = operating.create("Gong", "phone", 10, 100, 1, 0, 10**15)

    def locked(ids: object) -> None:
        raise AssertionError("the row was locked although Redis hangs")

    monkeypatch.setattr(rebuild, "lock_stocks", locked)
    with pytest.raises(RedisError):
        rebuild.rebuild(stock.id, stock.gate_epoch)
