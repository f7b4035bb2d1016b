"""A gateway that was just started, a stock, and buyers, for tests in which Redis loses its memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from gateway import sales
from gateway.backlog_monitor import BacklogMonitor
from gateway.handlers import Outcomes
from gateway.routes import Gateway
from inventory import gate, sale_commands, sale_view
from inventory.events import Decision, PurchaseDecided
from inventory.models import Stock
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.web import tokens
from tests.gateway_loop import AcknowledgingWriter, ApiClient, forget_connections, make_gateway

FAR_MS = 10**15
TOPIC = "purchase.requests"


_gateways: list[Gateway] = []


def started_gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[BacklogMonitor]:
    """A freshly started gateway whose queue is where the test puts it."""
    watch = BacklogMonitor(runs_thread=False)
    for module in ("purchase_status", "admission_fallback", "purchase", "purchase_queue"):
        monkeypatch.setattr(f"gateway.{module}.shared_monitor", lambda: watch)
    forget_clients()
    restart_gateway(monkeypatch, AcknowledgingWriter())
    yield watch
    forget_clients()


def restart_gateway(monkeypatch: pytest.MonkeyPatch, writer: AcknowledgingWriter | None = None) -> None:
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot())
    _gateways[:] = [make_gateway(writer or _gateways[0].purchases.queue.producer.writer)]


def forget_clients() -> None:
    forget_connections()
    gate.redis.cache_clear()
    gate._script.cache_clear()


def look_again() -> None:
    """Make the gateway's snapshot one hour old."""
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600


def make_stock() -> Stock:
    stock = sale_commands.create_sale("Gong", "phone", 1000, 100, 5, int(time.time() * 1000) - 60_000, FAR_MS)
    sale_view.publish_all_views()
    return stock


def buyer(name: str = "ann") -> ApiClient:
    return ApiClient(_gateways[0], HTTP_AUTHORIZATION=f"Bearer {tokens.issue_token(name)}")


def buy(client: ApiClient, stock: Stock, *, key: str = "one", quantity: int = 1, ticket: str | None = None) -> Any:
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
    """As the consumer gateway.outcomes receives it."""
    said = PurchaseDecided(request_id, "ann", stock.sale_id, "phone", 1, 100, decision, 2, 1)
    record = ReceivedRecord("inventory.decisions", 0, 0, 0, "ann", said.envelope(RecordPosition(TOPIC, 0, offset)))
    Outcomes().handle(Batch("cluster", "id", "inventory.decisions", 0, [record]))


def stands_at(watch: BacklogMonitor, offset: int, end: int = 100) -> None:
    watch.backlog.observe(time.monotonic(), {(TOPIC, 0): end}, {(TOPIC, 0): offset})


def bought(stock: Stock) -> dict[str, Any]:
    answer = buy(buyer(), stock)
    assert answer.status_code == 202, answer.content
    said: dict[str, Any] = answer.json()
    return said


# ── a known key ──────────────────────────────────────────────────────────────────────────────────
