"""The pages of metrics, as Prometheus would read them."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis import Redis

from gateway import buying
from gateway import metrics as of_gateway
from gateway.door import Here
from gateway.submissions import State
from inventory import metrics as of_inventory
from inventory import rows
from inventory.models import Sale, Stock
from mqcore.metrics import Family, Histogram
from notifications import metrics as of_notifications
from notifications.models import Channel
from orders import metrics as of_orders
from orders.models import Order
from seckill import metrics
from seckill.metrics import gauge, page, serve
from seckill.problems import Problem
from seckill.stack.broker import free_port
from seckill.streams.models import DeadLetter
from tests.concurrency.orders_cast import order, overdue


def values(families: list[Family]) -> dict[str, float]:
    lines = [line for line in page(families).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_orders_are_counted_by_state_and_the_oldest_overdue_is_told() -> None:
    order("ann")
    assert values(of_orders.FAMILIES)["seckill_orders_overdue_seconds"] == 0
    overdue(order("bob"))
    found = values(of_orders.FAMILIES)
    assert found['seckill_orders{state="PENDING_PAYMENT"}'] == 2
    assert found["seckill_orders_overdue_seconds"] >= 1
    assert found["seckill_provider_breaker_state"] == 0


def test_the_breaker_of_a_channel_is_seen() -> None:
    Channel.objects.create(name="sms", failures=7, open_until=timezone.now() + timedelta(minutes=1))
    found = values(of_notifications.FAMILIES)
    assert found['seckill_channel_breaker_state{channel="sms"}'] == 2
    assert found['seckill_channel_failures{channel="sms"}'] == 7
    assert found['seckill_channel_breaker_state{channel="email"}'] == 0


def test_stock_is_shown_by_account_and_dead_letters_by_state() -> None:
    sale = Sale.objects.create(name="Gong", opens_at_ms=0, closes_at_ms=1)
    Stock.objects.create(sale=sale, sku="phone", unit_price=1, cap=1, declared=5, available=3, reserved=2)
    DeadLetter.objects.create(group="orders", topic="t", topic_id="t", partition=0, offset=1, reason="bad")
    found = values(of_inventory.FAMILIES)
    of_phone = f'seckill_stock_units{{sale="{sale.pk}",sku="phone",account='
    assert [found[of_phone + f'"{account}"}}'] for account in ("available", "reserved", "sold")] == [3, 2, 0]
    assert found['seckill_dead_letters{group="orders",state="open"}'] == 1
    assert not any(name.startswith("seckill_outbox_rows") for name in found), "nothing waits"


def test_a_gateway_counts_purchases_by_what_it_has_answered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Problem(409, "sold-out", "The last unit has been sold.")

    monkeypatch.setattr(Here, "ask", refuse)
    monkeypatch.setattr(of_gateway, "PURCHASES", new := histogram())
    monkeypatch.setattr(of_gateway, "FAMILIES", [new, *of_gateway.FAMILIES[1:]])
    for _ in range(3):
        with pytest.raises(Problem):
            buying.buy(None)  # type: ignore[arg-type]  # it is not looked at
    lines = client.get("/metrics").content.decode().splitlines()
    assert 'seckill_purchase_seconds_count{answer="sold-out"} 3' in lines
    assert "seckill_queue_breaker_state 0" in lines
    assert any(line.startswith('seckill_submissions_total{end="acknowledged"} ') for line in lines)


def test_purchases_are_counted_while_the_clerk_is_asked_how_he_stands(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He is asked by the loop that counts them: held up by the page, it would wait for itself."""
    counted: list[bool] = []

    def state(self: Here) -> State:
        counting = threading.Thread(target=of_gateway.count, args=("accepted", 0.1), daemon=True)
        counting.start()
        counting.join(5)
        counted.append(not counting.is_alive())
        return State(0, 0, 0)

    monkeypatch.setattr(Here, "state", state)
    assert client.get("/metrics").status_code == 200
    assert counted and all(counted)


def test_a_gateway_is_asked_by_its_address_for_metrics_and_for_nothing_else(client: Client) -> None:
    """Of several gateways Prometheus knows the addresses only; a page with links wants a name that is ours."""
    assert client.get("/metrics", headers={"host": "172.18.0.7:8000"}).status_code == 200
    assert client.get("/api/docs", headers={"host": "172.18.0.7:8000"}).status_code == 400
    assert client.get("/api/docs", headers={"host": "localhost"}).status_code == 200


def histogram() -> Histogram:
    old = of_gateway.PURCHASES
    return Histogram(old.name, old.meaning, old.labels, of_gateway.BOUNDS_S)


def away() -> Iterator[tuple[tuple[str, ...], float]]:
    raise OperationalError("away")


@pytest.mark.parametrize(
    ("path", "read", "status"),
    [("/metrics", lambda: [((), 1.0)], 200), ("/metrics", away, 503), ("/", lambda: [((), 1.0)], 404)],
)
def test_the_page_is_on_a_port_of_its_own(path: str, read: object, status: int) -> None:
    port = free_port()
    server = serve("127.0.0.1", port, [gauge("one", "a number", (), read)])  # type: ignore[arg-type]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            assert (answer.status, answer.read().decode().splitlines()[-1]) == (status, "one 1")
    except urllib.error.HTTPError as error:
        with error:
            assert error.code == status
    finally:
        server.shutdown()
        server.server_close()


def test_the_skew_between_the_clock_that_sets_deadlines_and_the_one_that_heeds_them_is_shown(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert abs(values(of_inventory.FAMILIES)["seckill_clock_skew_seconds"]) < 5
    true = rows.now_ms
    monkeypatch.setattr(rows, "now_ms", lambda: true() + 90_000)
    assert values(of_inventory.FAMILIES)["seckill_clock_skew_seconds"] > 60


def test_a_large_table_is_not_counted_by_a_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shares are Postgres' own; what an index can count is counted."""
    for name in ("ann", "bob", "cleo", "dora", "emma"):
        order(name)
    Order.objects.filter(user_id__in=("ann", "emma")).update(state="PAID")
    monkeypatch.setattr(metrics, "EXACT_BYTES", 0)
    assert dict(metrics.counted_by("orders_order", "state")) == {"PAID": 2, "PENDING_PAYMENT": 3}, "no statistics yet"
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    Order.objects.filter(user_id="bob").update(state="PAID")
    with CaptureQueriesContext(connection) as queries:
        counted = values(of_orders.FAMILIES)
    assert counted['seckill_orders{state="PENDING_PAYMENT"}'] == 2
    assert counted['seckill_orders{state="PAID"}'] == 2, "as it was when Postgres looked last"
    assert not [query for query in queries if "FROM orders_order GROUP BY" in query["sql"]]
