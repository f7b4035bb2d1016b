"""What buyers are told when Redis has lost its memory, has an older one, or is three servers: through HTTP."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from kafka.future import Future
from redis import Redis

from gateway import admission, door, recalling, sales, shown, submissions
from gateway.desk import Desk
from gateway.door import Here
from gateway.handlers import Outcomes
from gateway.watching import Watch
from inventory import beat, gate, operating, views
from inventory.events import SALES_KEY, Decision, PurchaseDecided, SaleView, view_key
from inventory.models import Sale, Stock
from orders.events import OrderChanged, OrderEvent
from seckill import tokens
from seckill.envelope import Origin
from seckill.stack import ready, servers
from seckill.stack.broker import free_port
from seckill.streams.records import Batch, Received
from tests.services import Services, running

FAR_MS = 10**15
TOPIC = "purchase.requests"


class Writer:
    """Acknowledges every request, one offset after the other."""

    def __init__(self) -> None:
        self.offsets = 0

    def send(self, *_: object) -> Future:
        self.offsets += 1
        return Future().success(SimpleNamespace(topic=TOPIC, partition=0, offset=self.offsets - 1))


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """A gateway that has just started; its queue stands where the test says."""
    watch = Watch()
    writer = Writer()
    monkeypatch.setattr(watch, "_is_started", True)
    for module in ("following", "recalling", "desk"):
        monkeypatch.setattr(f"gateway.{module}.watch", lambda: watch)
    monkeypatch.setattr(submissions, "writer", lambda: writer)
    restart_gateway(monkeypatch)
    gate.redis.cache_clear()
    gate._script.cache_clear()
    yield watch
    forget_clients()


def restart_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot())
    monkeypatch.setattr(door.door, "behind", Here(Desk()))


def forget_clients() -> None:
    for cache in (admission.redis, admission._script, shown._look_script, shown._rounds, gate.redis, gate._script):
        cache.cache_clear()


def look_again() -> None:
    """The gateway's snapshot is of an hour ago."""
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600


@pytest.fixture
def stock() -> Stock:
    stock = operating.create("Gong", "phone", 1000, 100, 5, int(time.time() * 1000) - 60_000, FAR_MS)
    views.show_all()
    return stock


def buyer(name: str = "ann") -> Client:
    return Client(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(name)}")


def buy(client: Client, stock: Stock, *, key: str = "one", quantity: int = 1, ticket: str | None = None) -> Any:
    if ticket is None:
        said = client.post(f"/api/v1/sales/{stock.sale_id}/ticket")
        ticket = said.json().get("ticket", "")
    return client.post(
        f"/api/v1/sales/{stock.sale_id}/purchases",
        json.dumps({"quantity": quantity}),
        content_type="application/json",
        HTTP_IDEMPOTENCY_KEY=key,
        HTTP_PURCHASE_TICKET=ticket,
    )


def decide(request_id: UUID, stock: Stock, offset: int = 0, decision: Decision = Decision.RESERVED) -> None:
    """As gateway.outcomes reads it."""
    said = PurchaseDecided(request_id, "ann", stock.sale_id, "phone", 1, 100, decision, 2, 1)
    record = Received("inventory.decisions", 0, 0, 0, "ann", said.envelope(Origin(TOPIC, 0, offset)))
    Outcomes().handle(Batch("cluster", "id", "inventory.decisions", 0, [record]))


def stands_at(watch: Watch, offset: int, end: int = 100) -> None:
    watch.backlog.observe(time.monotonic(), {(TOPIC, 0): end}, {(TOPIC, 0): offset})


def bought(stock: Stock) -> dict[str, Any]:
    answer = buy(buyer(), stock)
    assert answer.status_code == 202, answer.content
    said: dict[str, Any] = answer.json()
    return said


# ── a known key ──────────────────────────────────────────────────────────────────────────────────


REFUSALS = ["closed", "paused", "sold out", "no ticket", "too fast"]


def make_refuse(stock: Stock, why: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The ticket to go with it."""
    if why in ("closed", "paused"):
        operating.set_state(stock.sale_id, why)
    elif why == "sold out":
        Stock.objects.filter(id=stock.id).update(available=0, sold=1000, version=99)
    elif why == "too fast":
        monkeypatch.setattr(admission, "USER_BURST", 0.5)
    views.show_all()
    views.show(stock.sale_id)
    look_again()
    return "" if why == "no ticket" else None


@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize("lost", ["flushed", "a day later"])
def test_a_known_key_gets_its_answer_before_any_refusal_when_redis_has_forgotten_it(
    stock: Stock, redis: Redis, gateway: Watch, monkeypatch: pytest.MonkeyPatch, why: str, lost: str
) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    if lost == "flushed":
        redis.flushall()
        views.show_all()
    else:  # the key's time was over; Redis remembers since before the opening
        redis.delete(admission.request_key(UUID(mine["request_id"])))
        redis.set(admission.SINCE_KEY, 1)
        monkeypatch.setattr(admission, "REMEMBER_S", 30)
    stands_at(gateway, 100)
    ticket = make_refuse(stock, why, monkeypatch)
    again = buy(buyer(), stock, ticket=ticket)
    assert again.status_code == 202, again.content
    assert (again.json()["request_id"], again.json()["offset"]) == (mine["request_id"], mine["offset"])
    assert buyer().get(again.json()["status_url"]).json()["state"] == "RESERVED"
    stranger = buy(buyer("bob"), stock, key="two", ticket=ticket)
    assert stranger.status_code in (403, 409, 410, 429, 503), "the refusal is there for everybody else"


def test_a_recalled_key_with_another_body_is_refused_and_with_its_own_is_known_again(
    stock: Stock, redis: Redis, gateway: Watch
) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    redis.flushall()
    views.show_all()
    assert buy(buyer(), stock, quantity=2).json()["title"] == "key reused"
    with CaptureQueriesContext(connection) as queries:
        assert buy(buyer(), stock).json()["request_id"] == mine["request_id"]
    assert not queries.captured_queries, "Redis has been told again"


def test_while_a_forgotten_request_may_be_in_the_queue_no_final_refusal_is_given(
    stock: Stock, redis: Redis, gateway: Watch
) -> None:
    bought(stock)
    redis.flushall()
    operating.set_state(stock.sale_id, "closed")
    views.show_all()
    look_again()
    stands_at(gateway, 99)
    answer = buy(buyer(), stock)
    assert (answer.status_code, answer.json()["title"], answer["Retry-After"]) == (503, "queue unknown", "1")
    stands_at(gateway, 100)
    assert buy(buyer(), stock).status_code == 410


def test_while_the_table_cannot_be_asked_no_final_refusal_is_given(
    stock: Stock, redis: Redis, gateway: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushall()
    operating.set_state(stock.sale_id, "closed")
    views.show_all()
    look_again()
    monkeypatch.setattr(recalling, "_find", lambda requests: None)
    assert buy(buyer(), stock).status_code == 503


def test_a_database_that_is_away_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", away)
        assert recalling._find([uuid4()]) is None


def test_a_key_is_known_after_the_view_of_its_sale_has_expired(stock: Stock, redis: Redis, gateway: Watch) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    operating.set_state(stock.sale_id, "closed")
    views.show_all()
    redis.delete(view_key(stock.sale_id), admission.request_key(UUID(mine["request_id"])))
    look_again()
    stands_at(gateway, 100)
    assert buy(buyer(), stock, ticket="none").json()["request_id"] == mine["request_id"]
    assert buy(buyer(), stock, key="two", ticket="none").status_code == 404


# ── sales ────────────────────────────────────────────────────────────────────────────────────────


def test_after_a_flush_a_sale_is_not_known_yet_and_never_missing(
    stock: Stock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/api/v1/sales/{stock.sale_id}"
    assert buyer().get(address).status_code == 200
    redis.flushall()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2 * sales.FRESH_S
    assert buyer().get(address).status_code == 200, "the last known serves on"
    assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1
    restart_gateway(monkeypatch)  # inventory.sweep is down all the while
    for path in (address, "/api/v1/sales", "/api/v1/sales/999"):
        answer = buyer().get(path)
        assert (answer.status_code, answer["Retry-After"]) == (503, "1"), path
    assert buy(buyer(), stock, ticket="x").status_code == 503
    views.show(stock.sale_id)  # a settlement shows one sale: that one is known, and others are not missing
    look_again()
    assert buyer().get(address).status_code == 200
    look_again()
    assert buyer().get("/api/v1/sales/999").status_code == 503
    views.show_all()
    look_again()
    assert buyer().get("/api/v1/sales/999").status_code == 404
    assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1


def test_without_any_sale_the_list_is_known_to_be_empty(redis: Redis) -> None:
    views.show_all()
    assert buyer().get("/api/v1/sales").json()["sales"] == []


def test_a_list_that_redis_lost_while_it_was_written_is_not_taken_for_whole(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        operating.create(f"Gong {number}", "phone", 1, 100, 1, 0, FAR_MS)
    redis.flushall()
    monkeypatch.setattr(views, "VIEWS_PER_CALL", 1)
    write, calls = views.redis().eval, []

    def flushed_after_the_first(*arguments: Any) -> Any:
        calls.append(arguments)
        answer = write(*arguments)
        if len(calls) == 1:
            redis.flushall()
        return answer

    monkeypatch.setattr(views.redis(), "eval", flushed_after_the_first)
    views.show_all()
    assert len(calls) == 3 and not redis.exists(SALES_KEY)
    views.show_all()
    assert redis.scard(SALES_KEY) == 4


def test_closed_sales_cost_the_sweep_and_the_list_nothing(redis: Redis, stock: Stock) -> None:
    closed = Sale.objects.bulk_create(
        [Sale(name=f"Old {number}", state="closed", opens_at_ms=0, closes_at_ms=1) for number in range(300)]
    )
    Stock.objects.bulk_create(
        [Stock(sale=sale, sku="phone", unit_price=1, cap=1, declared=1, available=1) for sale in closed]
    )
    redis.sadd(SALES_KEY, *[sale.id for sale in closed])  # as an older version has left them
    beat.heal()
    beat.heal()
    assert redis.smembers(SALES_KEY) == {"0", str(stock.sale_id)}
    before = redis.info("commandstats")["cmdstat_eval"]["calls"]
    with CaptureQueriesContext(connection) as queries:
        beat.heal()
    assert len(queries) < 8
    assert redis.info("commandstats")["cmdstat_eval"]["calls"] - before <= 2
    assert [each["id"] for each in buyer().get("/api/v1/sales").json()["sales"]] == [stock.sale_id]
    assert buyer().get(f"/api/v1/sales/{closed[0].id}").json()["state"] == "closed", "its view stays for a day"
    assert 0 < redis.ttl(view_key(closed[0].id)) <= 24 * 3600


def test_a_sale_that_is_closed_leaves_the_list_though_an_older_look_puts_it_back(redis: Redis, stock: Stock) -> None:
    old = views._view(Stock.objects.select_related("sale").get(id=stock.id))
    operating.set_state(stock.sale_id, "closed")
    assert redis.smembers(SALES_KEY) == {"0"}
    views._write_all([old], views._now_ms())  # a sweep that had read before
    views.show_all()
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
    with running(command, folder.with_suffix(".log"), ready.redis(f"redis://127.0.0.1:{port}/0")):
        client: Redis = Redis(port=port, decode_responses=True)
        yield client
        client.close()


def point_at(monkeypatch: pytest.MonkeyPatch, **urls: Any) -> None:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, **urls))
    forget_clients()


def test_a_redis_that_comes_back_with_old_data_tells_nobody_an_older_state(
    tmp_path: Path, gateway: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data are of the time when both buyers were in the queue; both have seen more since."""
    port = free_port()
    point_at(monkeypatch, admission_redis_url=f"redis://127.0.0.1:{port}/0")
    folder, kept = tmp_path / "redis", tmp_path / "kept"
    with redis_at(folder, port) as redis:
        redis.set(admission.SINCE_KEY, 1)  # it remembers from before the opening
        stock = operating.create("Gong", "phone", 1000, 100, 1, int(time.time() * 1000) - 1000, FAR_MS)
        views.show_all()
        mine = bought(stock)
        theirs = buy(buyer(), stock, key="two").json()
        decide(UUID(theirs["request_id"]), stock, theirs["offset"])
        shutil.copytree(folder, kept)
        later = buy(buyer(), stock, key="three").json()
        stands_at(gateway, 0)  # seen late: all three are thought to be in the queue
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
    record = Received("order.events", 0, 0, 0, "ann", placed.envelope(None, None))
    Outcomes().handle(Batch("cluster", "id", "order.events", 0, [record]))


def test_three_redis_servers_sell_as_one_does(
    tmp_path: Path, services: Services, gateway: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, gate_port = free_port(), free_port()
    point_at(
        monkeypatch,
        admission_redis_url=f"redis://127.0.0.1:{port}/0",
        gate_redis_url=f"redis://127.0.0.1:{gate_port}/0",
    )
    with redis_at(tmp_path / "admission", port) as ours, redis_at(tmp_path / "gate", gate_port) as theirs:
        stock = operating.create("Gong", "phone", 10, 100, 1, 0, FAR_MS)
        beat.heal()
        assert buyer().get(f"/api/v1/sales/{stock.sale_id}").status_code == 200
        assert len(buyer().get("/api/v1/sales").json()["sales"]) == 1
        assert buy(buyer(), stock).status_code == 202
        keys = {":".join(key.split(":")[:2]) for key in ours.scan_iter()}
        assert not any(":gate:" in key for key in ours.scan_iter()) and "sales:life" in keys
        assert all(":gate:" in key or key == gate.RUN_KEY for key in theirs.scan_iter()) and theirs.dbsize()


def test_a_redis_clock_that_steps_back_keeps_nobody_out(redis: Redis, stock: Stock) -> None:
    """Each try would otherwise write a debt of tokens, and renew it."""
    ahead_ms = int(time.time() * 1000) + 3600_000
    redis.set("admission:user:ann", f"20.000:{ahead_ms}")
    redis.set("admission:address:127.0.0.1", f"1000.000:{ahead_ms}")
    assert buy(buyer(), stock).status_code == 202
