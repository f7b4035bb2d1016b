"""An open sale, its buyers, and a slot writer that does what the test wants."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from kafka.future import Future
from redis import Redis

from gateway import sales, tickets
from gateway.admission_script import SINCE_KEY
from gateway.backlog_monitor import BacklogMonitor
from gateway.breakers import Partition
from gateway.purchase import Accepted, PurchaseCall, Purchases
from gateway.purchase_queue import PurchaseQueue
from inventory.events import SaleView
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.web import tokens
from tests.gateway_loop import LOOP, forget_connections, make_producer, on_loop

FOREVER = 10**15
OPENED_MS = int(time.time() * 1000) - 60_000
SALE = SaleView(7, "Gong", "phone", 100, 5, 1000, 1000, 0, 0, 3, "open", OPENED_MS, FOREVER)


@dataclass(slots=True)
class Writer:
    """Acknowledges at once, unless the test makes it stall or fail."""

    is_stalled: bool = False
    fault: Exception | None = None
    sent: list[dict[str, Any]] = field(default_factory=list)
    held: list[Future] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(
        self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]], on_settled: Callable[[Any], None]
    ) -> None:
        if isinstance(self.fault, KafkaError):  # the record is sent, but not acknowledged
            LOOP.call_soon_threadsafe(on_settled, self.fault)
            return
        if self.fault is not None:
            raise self.fault
        future = Future()
        future.add_both(lambda outcome: LOOP.call_soon_threadsafe(on_settled, outcome))
        with self.lock:
            self.sent.append({"key": key, "value": value, "headers": headers})
            offset = len(self.sent) - 1
        if self.is_stalled:
            self.held.append(future)
        else:
            acknowledge(future, offset)

    def partition_for(self, key: bytes) -> Partition | None:
        return PURCHASE_REQUESTS.name, 0

    def acknowledge_held(self) -> None:
        self.is_stalled = False
        for offset, future in enumerate(self.held):
            acknowledge(future, offset)


def acknowledge(future: Future, offset: int) -> None:
    future.success(RecordPosition(PURCHASE_REQUESTS.name, 0, offset))


def open_sale(redis: Redis, monkeypatch: pytest.MonkeyPatch, view: SaleView = SALE) -> None:
    """Known to the gateway without a look at Redis, which remembers requests since before the opening."""
    snapshot = sales._Snapshot(views={view.id: view}, listed=(view.id,))
    snapshot.taken_at = snapshot.tried_at = snapshot.complete_at = time.monotonic() + 1e6
    monkeypatch.setattr(sales, "_snapshot", snapshot)
    redis.set(SINCE_KEY, OPENED_MS - 1)
    monitor = BacklogMonitor(runs_thread=False)
    for module in ("purchase", "purchase_queue", "admission_fallback"):
        monkeypatch.setattr(f"gateway.{module}.shared_monitor", lambda: monitor)
    forget_connections()


def make_purchases(writer: Writer) -> Purchases:
    return Purchases(PurchaseQueue(make_producer(writer)))


def call(name: str = "ann", key: str = "one", *, quantity: int = 1, ticket: str | None = None) -> PurchaseCall:
    if ticket is None:
        ticket, _ = tickets.issue_ticket(name, SALE.id, int(time.time() * 1000))
    body = json.dumps({"quantity": quantity}).encode()
    return PurchaseCall(SALE.id, "", f"Bearer {tokens.issue_token(name)}", key, ticket, "10.0.0.1", "", None, body)


def buy(purchases: Purchases, each: PurchaseCall) -> Accepted:
    return on_loop(purchases.buy(each))


def buy_together(purchases: Purchases, crowd: Sequence[PurchaseCall]) -> list[Accepted | BaseException]:
    """All at once, on the loop."""

    async def all_of_them() -> list[Accepted | BaseException]:
        return await asyncio.gather(*map(purchases.buy, crowd), return_exceptions=True)

    return on_loop(all_of_them())


def start(purchases: Purchases, each: PurchaseCall) -> Any:
    """A future of a purchase that goes on."""
    return asyncio.run_coroutine_threadsafe(purchases.buy(each), LOOP)


def position_of(accepted: Accepted) -> tuple[str, int, int]:
    body = json.loads(accepted.content)
    return body["topic"], body["partition"], body["offset"]
