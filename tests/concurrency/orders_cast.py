"""The cast of the tests of orders and payments: the sandbox's payment provider, and orders placed from decisions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from inventory.events import Decision, PurchaseDecided
from loadtest.sandbox.http_server import start_server
from loadtest.sandbox.provider import Provider
from orders import payment_attempts
from orders.models import Order, Payment
from orders.payments import provider as client
from orders.placement import order_id_of, place_orders
from orders.states import OrderState
from seckill.messaging.envelope import Envelope
from seckill.messaging.models import OutboxRow
from seckill.messaging.record_position import RecordPosition
from seckill.stack.child_processes import free_port


class SandboxProvider:
    """The sandbox's payment provider. It captures and refunds only when a test says so."""

    def __init__(self, folder: Path) -> None:
        self._provider = Provider(folder, "secret")
        self._log = folder / "provider.jsonl"
        self.port = free_port()
        self._server = start_server(self.port, self._provider.handle)
        self.behave(mode="never")

    def behave(self, **control: Any) -> None:
        assert self._provider.handle("POST", "/control", control, {})[0] == 200

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        self.stop()
        self._provider.close()

    def capture(self, payment_id: UUID) -> bool:
        """The buyer has paid. False: the payment was voided before."""
        return self._provider._move(str(payment_id), "open", "captured")

    def open_payment(self, payment_id: UUID, amount: int = 100) -> None:
        """A payment that orders does not know."""
        body = {"id": str(payment_id), "order_id": "elsewhere", "amount": amount, "callback_url": "http://127.0.0.1:9/"}
        assert self._provider.handle("POST", "/payments", body, {})[0] == 200

    def counts(self) -> Counter[str]:
        """Kinds of movements in its own log."""
        kinds = (json.loads(line)["what"] for line in self._log.read_text().splitlines())
        return Counter(kind for kind in kinds if kind != "control")


@contextmanager
def running_sandbox(folder: Path) -> Iterator[SandboxProvider]:
    sandbox = SandboxProvider(folder)
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, provider_url=f"http://127.0.0.1:{sandbox.port}")
    client.breaker.record_success()
    try:
        yield sandbox
    finally:
        settings.ENVIRONMENT = before
        client.breaker.record_success()
        sandbox.close()


def decided(user: str = "ann", decision: Decision = Decision.RESERVED, quantity: int = 1) -> PurchaseDecided:
    return PurchaseDecided(uuid4(), user, 1, "phone", quantity, 100, decision, 2, 0)


def with_envelope(decision: PurchaseDecided, offset: int = 7) -> tuple[Envelope, PurchaseDecided]:
    return decision.envelope(RecordPosition("purchase.requests", 0, offset)), decision


def place_order(user: str = "ann", quantity: int = 1) -> Order:
    decision = decided(user, quantity=quantity)
    with transaction.atomic():
        assert place_orders([with_envelope(decision)])
    return Order.objects.get(id=order_id_of(decision.request_id))


def start_attempt(placed: Order) -> Payment:
    payment = payment_attempts.start_attempt(placed)
    assert payment is not None
    return payment


def place_paid_order(sandbox: SandboxProvider, user: str = "ann") -> tuple[Order, Payment]:
    placed = place_order(user)
    payment = start_attempt(placed)
    assert sandbox.capture(payment.id)
    assert payment_attempts.handle_callback(f"cb-{payment.id}", payment.id, "captured")
    assert state_of(placed) is OrderState.PAID
    return placed, payment


def make_overdue(placed: Order) -> None:
    Order.objects.filter(id=placed.id).update(pay_before=Now() - timedelta(seconds=1))


def state_of(placed: Order) -> OrderState:
    placed.refresh_from_db()
    return OrderState(placed.state)


def published_events() -> Counter[str]:
    return Counter(json.loads(bytes(row.value))["type"] for row in OutboxRow.objects.all())
