"""While Redis accepts connections and never answers, inventory decides by the stock row and waits only once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings
from redis.exceptions import RedisError

from inventory import gate, gate_rebuild, sale_commands, sale_view
from inventory.models import DecidedRequest
from tests.concurrency.stock_cast import decide, request
from tests.unit.seckill.resilience.test_redis_client import Silent

BATCHES = 8


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    server = Silent()
    hanging = replace(settings.ENVIRONMENT, gate_redis_url=server.url, admission_redis_url=server.url)
    monkeypatch.setattr(settings, "ENVIRONMENT", hanging)
    caches = (gate.redis, gate._script, sale_view._client)
    for cache in caches:
        cache.cache_clear()
    yield server
    for cache in caches:
        cache.cache_clear()
    server.close()


def test_batches_are_decided_while_redis_hangs_at_the_cost_of_one_timeout_per_client(silent: Silent) -> None:
    stock = sale_commands.create_sale("Gong", "phone", 10, 100, 1, 0, 10**15)
    for number in range(BATCHES):
        decide([request(stock, f"user-{number}")], partition=number)
    assert DecidedRequest.objects.filter(decision="RESERVED").count() == BATCHES
    assert len(silent.connections) <= 2 * 2, "two clients, each of which retries at most once after its breaker's pause"


def test_the_stock_lock_is_not_held_during_a_redis_timeout(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild of the gate fails before it locks the row, so other transactions can lock it at any moment."""
    stock = sale_commands.create_sale("Gong", "phone", 10, 100, 1, 0, 10**15)

    def locked(ids: object) -> None:
        raise AssertionError("the row was locked although Redis hangs")

    monkeypatch.setattr(gate_rebuild, "lock_stocks", locked)
    with pytest.raises(RedisError):
        gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch)
