"""A gateway that was just started, a stock, and buyers, for tests in which Redis loses its memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from gateway.desk import Desk
from gateway.door import Here
from kafka.future import Future

from gateway import admission, door, outcome_cache, sales, submissions
from gateway.backlog_monitor import BacklogMonitor
from gateway.handlers import Outcomes
from inventory import gate, sale_commands, sale_view
from inventory.events import Decision, PurchaseDecided
from inventory.models import Stock
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.web import tokens

FAR_MS = 10**15
TOPIC = "purchase.requests"


class Writer:
    """Acknowledges every request, one offset after the other."""

    def __init__(self) -> None:
        self.offsets = 0

    def send(self, *_: object) -> Future:
        self.offsets += 1
        return Future().success(SimpleNamespace(topic=TOPIC, partition=0, offset=self.offsets - 1))


def started_gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[BacklogMonitor]:
    """A freshly started gateway whose queue is where the test puts it."""
    watch = BacklogMonitor(runs_thread=False)
    writer = Writer()
    for module in ("purchase_status", "admission_fallback", "desk"):
        monkeypatch.setattr(f"gateway.{module}.shared_monitor", lambda: watch)
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
    for cache in (
        admission.redis_connection,
        admission._script,
        outcome_cache._fetch_script,
        outcome_cache._batches,
        gate.redis,
        gate._script,
    ):
        cache.cache_clear()


def look_again() -> None:
    """Make the gateway's snapshot one hour old."""
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600


def make_stock() -> Stock:
    stock = sale_commands.create_sale("Gong", "phone", 1000, 100, 5, int(time.time() * 1000) - 60_000, FAR_MS)
    sale_view.publish_all_views()
    return stock


def buyer(name: str = "ann") -> Client:
    return Client(HTTP_AUTHORIZATION=f"Bearer {tokens.issue_token(name)}")


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
