"""A gateway whose sales and queue a test sets, and events for it."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis import Redis

from gateway import sales, signed_positions
from gateway.backlog_monitor import BacklogMonitor
from gateway.signed_positions import SignedPosition
from inventory.events import SALES_KEY, Decision, PurchaseDecided, SaleView, UnitsReleased, view_key
from orders.events import OrderChanged, OrderEvent
from seckill.messaging.record_position import RecordPosition
from seckill.web import tokens
from tests.gateway_loop import ApiClient, forget_connections, make_gateway

TOPIC = "purchase.requests"
FOREVER = 10**15


def make_monitor(monkeypatch: pytest.MonkeyPatch) -> BacklogMonitor:
    """A monitor that knows only what the test tells it."""
    watch = BacklogMonitor(runs_thread=False)
    monkeypatch.setattr("gateway.purchase_status.shared_monitor", lambda: watch)
    return watch


def make_client(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    """Ann's client, and a sale."""
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot())
    forget_connections()
    show(redis, view())
    return ApiClient(make_gateway(), HTTP_AUTHORIZATION=f"Bearer {tokens.issue_token('ann')}")


def view(**different: Any) -> SaleView:
    good = SaleView(7, "Gong", "phone", 100, 1, 5, 5, 0, 0, 3, "open", 0, FOREVER)
    return SaleView(**({name: getattr(good, name) for name in SaleView.__slots__} | different))


def show(redis: Redis, shown_view: SaleView) -> None:
    redis.sadd(SALES_KEY, shown_view.id)
    redis.set(view_key(shown_view.id), shown_view.encode())


def decided(request_id: UUID, decision: Decision = Decision.RESERVED) -> PurchaseDecided:
    return PurchaseDecided(request_id, "ann", 7, "phone", 1, 100, decision, 4, 1)


def order(request_id: UUID, event: OrderEvent) -> OrderChanged:
    return OrderChanged(event, uuid4(), request_id, "ann", 7, "phone", 1, 100, 1, 2)


def released(request_id: UUID) -> UnitsReleased:
    return UnitsReleased(request_id, "ann", 7, "phone", 1, "expired", 5)


def queue_stands_at(watch: BacklogMonitor, offset: int) -> None:
    """Inventory has decided everything before this offset."""
    watch.backlog.observe(time.monotonic(), {(TOPIC, 0): 100}, {(TOPIC, 0): offset})


def address(request_id: UUID, deadline_ms: int = 99) -> str:
    standing = SignedPosition("ann", RecordPosition(TOPIC, 0, 50), deadline_ms)
    return f"/api/v1/purchases/{request_id}?place={signed_positions.sign_position(request_id, standing)}"
