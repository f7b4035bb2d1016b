"""The metrics pages, read the way Prometheus reads them."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import CollectorRegistry
from redis import Redis

from gateway import metrics as of_gateway
from gateway.purchase import PurchaseCall
from inventory import metrics as of_inventory
from inventory.models import Sale, Stock
from notifications import metrics as of_notifications
from notifications.models import Channel
from orders import metrics as of_orders
from orders.models import Order
from orders.payments import provider
from seckill.messaging import database_clock
from seckill.messaging.models import DeadLetter
from seckill.monitoring import metrics
from seckill.monitoring.metrics import ComputedMetric, Sample, registry_of, render, serve
from seckill.resilience.circuit_breaker import CircuitBreaker
from seckill.stack.child_processes import free_port
from seckill.web.problems import Problem
from tests.concurrency.orders_cast import make_overdue, place_order
from tests.gateway_loop import make_gateway, on_loop
from tests.services import Services


def samples_of(registry: CollectorRegistry) -> dict[str, float]:
    lines = [line for line in render(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(number) for name, _, number in (line.rpartition(" ") for line in lines)}


def test_orders_are_counted_by_state_and_the_oldest_overdue_one_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "breaker", CircuitBreaker(failures_max=5, open_seconds=3.0))
    place_order("ann")
    assert samples_of(of_orders.REGISTRY)["seckill_orders_overdue_seconds"] == 0
    make_overdue(place_order("bob"))
    found = samples_of(of_orders.REGISTRY)
    assert found['seckill_orders{state="PENDING_PAYMENT"}'] == 2
    assert found["seckill_orders_overdue_seconds"] >= 1
    assert found["seckill_provider_breaker_state"] == 0


def test_an_open_breaker_of_a_channel_is_shown() -> None:
    Channel.objects.create(name="sms", failures=7, open_until=timezone.now() + timedelta(minutes=1))
    found = samples_of(of_notifications.REGISTRY)
    assert found['seckill_channel_breaker_state{channel="sms"}'] == 2
    assert found['seckill_channel_failures{channel="sms"}'] == 7
    assert found['seckill_channel_breaker_state{channel="email"}'] == 0


def test_stock_is_shown_by_account_and_dead_letters_by_state() -> None:
    sale = Sale.objects.create(name="Gong", opens_at_ms=0, closes_at_ms=1)
    Stock.objects.create(sale=sale, sku="phone", unit_price=1, cap=1, declared=5, available=3, reserved=2)
    DeadLetter.objects.create(group="orders", topic="t", topic_id="t", partition=0, offset=1, reason="bad")
    found = samples_of(of_inventory.REGISTRY)
    units = {
        account: of_inventory.REGISTRY.get_sample_value(
            "seckill_stock_units", {"sale": str(sale.pk), "sku": "phone", "account": account}
        )
        for account in ("available", "reserved", "sold")
    }
    assert units == {"available": 3, "reserved": 2, "sold": 0}
    assert found['seckill_dead_letters{group="orders",state="open"}'] == 1
    assert not any(name.startswith("seckill_outbox_rows") for name in found), "the outbox is empty"


def purchases_answered(answer: str) -> float:
    return of_gateway.REGISTRY.get_sample_value("seckill_purchase_seconds_count", {"answer": answer}) or 0


def test_a_gateway_counts_purchases_by_their_answer(client: Client) -> None:
    before, offered = purchases_answered("not-signed-in"), of_gateway.offered_total()
    call = PurchaseCall(1, "", "Bearer forged", "one", "", "127.0.0.1", "", None, b"{}")
    for _ in range(3):
        with pytest.raises(Problem):
            on_loop(make_gateway().purchases.buy(call))
    assert purchases_answered("not-signed-in") == before + 3
    assert of_gateway.offered_total() == offered + 3
    lines = client.get("/metrics").content.decode().splitlines()
    assert f'seckill_purchase_seconds_count{{answer="not-signed-in"}} {before + 3:.1f}' in lines
    assert any(line.startswith("seckill_queue_breaker_state ") for line in lines)


WORKER = """
import os, signal, sys
from gateway import metrics
metrics.observe_purchase("accepted", 0.1)
metrics.OFFERED.inc(2)
metrics.WAITING.set(5)
print("ready", flush=True)
sys.stdin.readline()
"""


def test_the_page_adds_up_the_numbers_of_all_workers_and_forgets_what_a_dead_one_was_waiting_for(
    tmp_path: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = services.environment(PROMETHEUS_MULTIPROC_DIR=str(tmp_path))
    command = [sys.executable, "-c", f"import django; django.setup()\n{WORKER}"]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) for _ in range(2)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

        def value(name: str, **labels: str) -> float | None:
            return of_gateway.summed_registry().get_sample_value(name, labels)

        assert value("seckill_purchases_offered_total") == of_gateway.offered_total() == 4
        assert value("seckill_purchase_seconds_count", answer="accepted") == 2
        assert value("seckill_purchases_waiting") == 10
        workers[0].kill()
        workers[0].wait()
        assert value("seckill_purchases_waiting") == 5
        assert value("seckill_purchases_offered_total") == 4
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def test_only_the_metrics_page_answers_under_any_host_name(client: Client) -> None:
    """Prometheus knows several gateways by their addresses only. Pages with links insist on a configured name."""
    assert client.get("/metrics", headers={"host": "172.18.0.7:8000"}).status_code == 200
    assert client.get("/api/docs", headers={"host": "172.18.0.7:8000"}).status_code == 400
    assert client.get("/api/docs", headers={"host": "localhost"}).status_code == 200


def database_down() -> Iterator[Sample]:
    raise OperationalError("down")


@pytest.mark.parametrize(
    ("path", "read", "status"),
    [("/metrics", lambda: [((), 1.0)], 200), ("/metrics", database_down, 503), ("/", lambda: [((), 1.0)], 404)],
)
def test_a_service_serves_its_metrics_on_a_port_of_their_own(path: str, read: object, status: int) -> None:
    port = free_port()
    registry = registry_of(ComputedMetric("one", "a number", (), read))  # type: ignore[arg-type]
    server = serve("127.0.0.1", port, registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            assert (answer.status, answer.read().decode().splitlines()[-1]) == (status, "one 1.0")
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == status
    finally:
        server.shutdown()
        server.server_close()


def test_the_skew_between_the_clocks_of_admission_and_decision_is_shown(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert abs(samples_of(of_inventory.REGISTRY)["seckill_clock_skew_seconds"]) < 5
    now_ms = database_clock.now_ms
    monkeypatch.setattr(database_clock, "now_ms", lambda: now_ms() + 90_000)
    assert samples_of(of_inventory.REGISTRY)["seckill_clock_skew_seconds"] > 60


def test_each_use_of_redis_shows_whether_its_server_answers(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> dict[str, float]:
        found = samples_of(of_inventory.REGISTRY)
        return {use: found[f'seckill_redis_up{{use="{use}"}}'] for use in ("admission", "gate", "celery")}

    assert set(answers().values()) == {1.0}
    monkeypatch.setattr(
        settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, celery_redis_url=f"redis://127.0.0.1:{free_port()}/1")
    )
    assert answers() == {"admission": 1.0, "gate": 1.0, "celery": 0.0}


def test_a_scrape_does_not_count_the_rows_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes Postgres' statistics, and counts only what an index covers."""
    for name in ("ann", "bob", "cleo", "dora", "emma"):
        place_order(name)
    Order.objects.filter(user_id__in=("ann", "emma")).update(state="PAID")
    monkeypatch.setattr(metrics, "EXACT_BYTES_MAX", 0)
    assert dict(metrics.count_by("orders_order", "state")) == {"PAID": 2, "PENDING_PAYMENT": 3}, "no statistics yet"
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    Order.objects.filter(user_id="bob").update(state="PAID")
    with CaptureQueriesContext(connection) as queries:
        counted = samples_of(of_orders.REGISTRY)
    assert counted['seckill_orders{state="PENDING_PAYMENT"}'] == 2
    assert counted['seckill_orders{state="PAID"}'] == 2, "the value at the last ANALYZE"
    assert not [query for query in queries if "FROM orders_order GROUP BY" in query["sql"]]


def test_a_gateway_publishes_what_waits_and_what_streams() -> None:
    gateway = make_gateway()
    gateway.purchases.waiting_count, gateway._streams.stream_count = 3, 5

    async def publish_once() -> None:
        task = asyncio.create_task(of_gateway.publish(gateway.purchases, gateway._streams))
        async with asyncio.timeout(30):
            while of_gateway.REGISTRY.get_sample_value("seckill_streams") != 5:
                await asyncio.sleep(0.01)
        task.cancel()

    on_loop(publish_once())
    assert of_gateway.REGISTRY.get_sample_value("seckill_purchases_waiting") == 3
    assert math.isnan(
        of_gateway.REGISTRY.get_sample_value("seckill_queue_undecided", {"topic": "purchase.requests"}) or 0
    )
