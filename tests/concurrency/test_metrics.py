"""The pages of metrics, as Prometheus would read them."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from mqcore.metrics import Family
from notifications import metrics as of_notifications
from notifications.models import Channel
from orders import metrics as of_orders
from seckill.metrics import gauge, page, serve
from seckill.stack.broker import free_port
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
