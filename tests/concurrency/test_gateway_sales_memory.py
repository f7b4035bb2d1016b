"""What buyers see of sales when Redis has lost or restored its data, or is three servers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import Redis

from gateway import admission, sales
from gateway.admission_script import SINCE_KEY
from gateway.backlog_monitor import BacklogMonitor
from gateway.handlers import Outcomes
from inventory import gate, sale_commands, sale_view, sweep
from inventory.events import SALES_KEY, SaleView, view_key
from inventory.models import Sale, Stock
from orders.events import OrderChanged, OrderEvent
from seckill.messaging import database_clock
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.stack import health_checks, servers
from seckill.stack.child_processes import free_port, running
from tests.concurrency.gateway_memory_cast import (
    FAR_MS,
    bought,
    buy,
    buyer,
    decide,
    forget_clients,
    look_again,
    make_stock,
    restart_gateway,
    stands_at,
    started_gateway,
)
from tests.services import Services


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[BacklogMonitor]:
    yield from started_gateway(monkeypatch)


@pytest.fixture
def stock() -> Stock:
    return make_stock()


def test_after_a_flush_a_sale_is_not_known_yet_and_never_missing(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/api/v1/sales/{stock.sale_id}"
    assert buyer().get(address).status_code == 200
    redis.flushall()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2 * sales.FRESH_S
    assert buyer().get(address).status_code == 200, "the last known sales are still served"
    assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1
    restart_gateway(monkeypatch)  # inventory.sweep is down
    for path in (address, "/api/v1/sales", "/api/v1/sales/999"):
        answer = buyer().get(path)
        assert (answer.status_code, answer["Retry-After"]) == (503, "1"), path
    assert buy(buyer(), stock, ticket="x").status_code == 503
    sale_view.publish_view(
        stock.sale_id
    )  # a settlement publishes one view: that sale is known, the others are still not missing
    look_again()
    assert buyer().get(address).status_code == 200
    look_again()
    assert buyer().get("/api/v1/sales/999").status_code == 503
    sale_view.publish_all_views()
    look_again()
    assert buyer().get("/api/v1/sales/999").status_code == 404
    assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1


def test_without_any_sale_the_list_is_known_to_be_empty(redis: Redis) -> None:
    sale_view.publish_all_views()
    assert buyer().get("/api/v1/sales").json()["sales"] == []


def test_a_list_that_redis_lost_during_its_writing_does_not_count_as_whole(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        sale_commands.create_sale(f"Gong {number}", "phone", 1, 100, 1, 0, FAR_MS)
    redis.flushall()
    monkeypatch.setattr(sale_view, "VIEWS_PER_CALL_MAX", 1)
    write, calls = sale_view.redis().eval, []

    def flushed_after_the_first(*arguments: Any) -> Any:
        calls.append(arguments)
        answer = write(*arguments)
        if len(calls) == 1:
            redis.flushall()
        return answer

    monkeypatch.setattr(sale_view.redis(), "eval", flushed_after_the_first)
    sale_view.publish_all_views()
    assert len(calls) == 3 and not redis.exists(SALES_KEY)
    sale_view.publish_all_views()
    assert redis.scard(SALES_KEY) == 4


def test_closed_sales_cost_the_sweep_and_the_list_nothing(redis: Redis, stock: Stock) -> None:
    closed = Sale.objects.bulk_create(
        [Sale(name=f"Old {number}", state="closed", opens_at_ms=0, closes_at_ms=1) for number in range(300)]
    )
    Stock.objects.bulk_create(
        [Stock(sale=sale, sku="phone", unit_price=1, cap=1, declared=1, available=1) for sale in closed]
    )
    redis.sadd(SALES_KEY, *[sale.id for sale in closed])  # as an older version wrote them
    sweep.run_once()
    sweep.run_once()
    assert redis.smembers(SALES_KEY) == {"0", str(stock.sale_id)}
    before = redis.info("commandstats")["cmdstat_eval"]["calls"]
    with CaptureQueriesContext(connection) as queries:
        sweep.run_once()
    assert len(queries) < 8
    assert redis.info("commandstats")["cmdstat_eval"]["calls"] - before <= 2
    assert [each["id"] for each in buyer().get("/api/v1/sales").json()["sales"]] == [stock.sale_id]
    assert buyer().get(f"/api/v1/sales/{closed[0].id}").json()["state"] == "closed", "its view is kept for a day"
    assert 0 < redis.ttl(view_key(closed[0].id)) <= 24 * 3600


def test_a_closed_sale_leaves_the_list_even_if_an_older_view_is_written_again(redis: Redis, stock: Stock) -> None:
    old = sale_view._build_view([Stock.objects.select_related("sale").get(id=stock.id)])
    sale_commands.set_sale_state(stock.sale_id, "closed")
    assert redis.smembers(SALES_KEY) == {"0"}
    sale_view._publish_views([old], database_clock.now_ms())  # a sweep that had read the sale before
    sale_view.publish_all_views()
    assert redis.smembers(SALES_KEY) == {"0"}
    assert SaleView.decode(str(redis.get(view_key(stock.sale_id)))).state == "closed"


def test_a_field_that_a_newer_inventory_shows_is_ignored(redis: Redis, stock: Stock) -> None:
    fields = json.loads(str(redis.get(view_key(stock.sale_id))))
    redis.set(view_key(stock.sale_id), json.dumps(fields | {"colour": "red"}))
    assert buyer().get(f"/api/v1/sales/{stock.sale_id}").json()["name"] == "Gong"


def test_a_view_that_an_older_gateway_would_misunderstand_is_not_a_missing_sale(redis: Redis, stock: Stock) -> None:
    fields = json.loads(str(redis.get(view_key(stock.sale_id))))
    redis.set(view_key(stock.sale_id), json.dumps(fields | {"schema": 2}))
    assert buyer().get(f"/api/v1/sales/{stock.sale_id}").status_code == 503


# ── another life of Redis, and three servers ─────────────────────────────────────────────────────


@contextmanager
def redis_at(folder: Path, port: int) -> Iterator[Redis]:
    command = [*servers.redis_command(folder, port), "--appendfsync", "always"]
    with running("Redis", command, folder.with_suffix(".log"), health_checks.redis(f"redis://127.0.0.1:{port}/0")):
        client: Redis = Redis(port=port, decode_responses=True)
        yield client
        client.close()


def point_at(monkeypatch: pytest.MonkeyPatch, **urls: Any) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, **urls))
    forget_clients()


def test_a_redis_restored_from_old_data_shows_no_older_state(
    tmp_path: Path, gateway: BacklogMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data date from when both buyers were queued; both have seen later states since."""
    port = free_port()
    point_at(monkeypatch, admission_redis_url=f"redis://127.0.0.1:{port}/0")
    folder, kept = tmp_path / "redis", tmp_path / "kept"
    with redis_at(folder, port) as redis:
        redis.set(SINCE_KEY, 1)  # Redis remembers since before the opening
        stock = sale_commands.create_sale("Gong", "phone", 1000, 100, 1, int(time.time() * 1000) - 1000, FAR_MS)
        sale_view.publish_all_views()
        mine = bought(stock)
        theirs = buy(buyer(), stock, key="two").json()
        decide(UUID(theirs["request_id"]), stock, theirs["offset"])
        shutil.copytree(folder, kept)
        later = buy(buyer(), stock, key="three").json()
        stands_at(gateway, 0)  # observed late, so all three seem to be queued
        for each in (mine, later):
            decide(UUID(each["request_id"]), stock, each["offset"])
        placed_order(UUID(theirs["request_id"]), stock)
        seen = [buyer().get(each["status_url"]).json()["state"] for each in (mine, theirs, later)]
        assert seen == ["RESERVED", "AWAITING_PAYMENT", "RESERVED"]
    shutil.rmtree(folder)
    kept.rename(folder)
    forget_clients()
    with redis_at(folder, port) as redis:
        assert redis.exists(admission.request_key(UUID(mine["request_id"])))
        assert buy(buyer(), stock, key="three").json()["request_id"] == later["request_id"]
        assert [buyer().get(each["status_url"]).json()["state"] for each in (mine, theirs, later)] == seen
        bare = f"/api/v1/purchases/{later['request_id']}"
        assert buyer().get(bare).json()["state"] == "RESERVED"


def placed_order(request_id: UUID, stock: Stock) -> None:
    placed = OrderChanged(OrderEvent.PLACED, uuid4(), request_id, "ann", stock.sale_id, "phone", 1, 100, 1, FAR_MS)
    record = ReceivedRecord("order.events", 0, 0, 0, "ann", placed.envelope(None, None))
    Outcomes().handle(Batch("cluster", "id", "order.events", 0, [record]))


def test_three_redis_servers_sell_like_one(
    tmp_path: Path, services: Services, gateway: BacklogMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, gate_port = free_port(), free_port()
    point_at(
        monkeypatch,
        admission_redis_url=f"redis://127.0.0.1:{port}/0",
        gate_redis_url=f"redis://127.0.0.1:{gate_port}/0",
    )
    with redis_at(tmp_path / "admission", port) as ours, redis_at(tmp_path / "gate", gate_port) as theirs:
        stock = sale_commands.create_sale("Gong", "phone", 10, 100, 1, 0, FAR_MS)
        sweep.run_once()
        assert buyer().get(f"/api/v1/sales/{stock.sale_id}").status_code == 200
        assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1
        assert buy(buyer(), stock).status_code == 202
        keys = {":".join(key.split(":")[:2]) for key in ours.scan_iter()}
        assert not any(":gate:" in key for key in ours.scan_iter()) and "sales:life" in keys
        assert all(":gate:" in key or key == gate.SYNCED_RUN_KEY for key in theirs.scan_iter()) and theirs.dbsize()


def test_a_redis_clock_that_steps_back_locks_no_one_out(redis: Redis, stock: Stock) -> None:
    """Otherwise every attempt would extend the debt of the rate limit."""
    ahead_ms = int(time.time() * 1000) + 3600_000
    redis.set("admission:user:ann", f"20.000:{ahead_ms}")
    redis.set("admission:address:127.0.0.1", f"1000.000:{ahead_ms}")
    assert buy(buyer(), stock).status_code == 202
