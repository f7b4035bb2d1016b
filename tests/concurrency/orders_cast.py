"""The cast of the tests of orders and money: a provider that does nothing by itself, orders as decisions make them."""

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
from django.utils import timezone

from inventory.events import Decision, PurchaseDecided
from loadtest.sandbox.provider import Provider
from loadtest.sandbox.serving import serve
from orders import paying
from orders.lifecycle import State
from orders.models import Order, Payment
from orders.payments import provider as client
from orders.placing import order_id_of, place
from seckill.envelope import Envelope, Origin
from seckill.stack.broker import free_port
from seckill.streams.models import OutboxRow


class Outside:
    """The provider as a test sees it."""

    def __init__(self, folder: Path) -> None:
        self._provider = Provider(folder, "secret")
        self._log = folder / "provider.jsonl"
        self.port = free_port()
        self._server = serve(self.port, self._provider.answer)
        self.told(mode="never")

    def told(self, **control: Any) -> None:
        """What it is told over its control address."""
        assert self._provider.answer("POST", "/control", control, {})[0] == 200

    def go_away(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        self.go_away()
        self._provider.close()

    def pays(self, payment_id: UUID) -> bool:
        """The buyer's bank has paid; False: the payment was voided before."""
        return self._provider._move(str(payment_id), "open", "captured")

    def opens(self, payment_id: UUID, amount: int = 100) -> None:
        """Somebody begins a payment that we know nothing of."""
        body = {"id": str(payment_id), "order_id": "elsewhere", "amount": amount, "callback_url": "http://127.0.0.1:9/"}
        assert self._provider.answer("POST", "/payments", body, {})[0] == 200

    def counts(self) -> Counter[str]:
        """Its own log: what has really happened there."""
        said = (json.loads(line)["what"] for line in self._log.read_text().splitlines())
        return Counter(what for what in said if what != "control")


@contextmanager
def outside_world(folder: Path) -> Iterator[Outside]:
    outside = Outside(folder)
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, provider_url=f"http://127.0.0.1:{outside.port}")
    client.breaker.succeeded()
    try:
        yield outside
    finally:
        settings.ENVIRONMENT = before
        client.breaker.succeeded()
        outside.close()


def decided(user: str = "ann", decision: Decision = Decision.RESERVED, quantity: int = 1) -> PurchaseDecided:
    return PurchaseDecided(uuid4(), user, 1, "phone", quantity, 100, decision, 2, 0)


def enveloped(said: PurchaseDecided, offset: int = 7) -> tuple[Envelope, PurchaseDecided]:
    return said.envelope(Origin("purchase.requests", 0, offset)), said


def order(user: str = "ann", quantity: int = 1) -> Order:
    said = decided(user, quantity=quantity)
    with transaction.atomic():
        assert place([enveloped(said)])
    return Order.objects.get(id=order_id_of(said.request_id))


def attempt(placed: Order) -> Payment:
    payment = paying.begin(placed)
    assert payment is not None
    return payment


def paid(outside: Outside, user: str = "ann") -> tuple[Order, Payment]:
    placed = order(user)
    payment = attempt(placed)
    assert outside.pays(payment.id)
    assert paying.told(f"cb-{payment.id}", payment.id, "captured")
    assert state(placed) is State.PAID
    return placed, payment


def overdue(placed: Order) -> None:
    Order.objects.filter(id=placed.id).update(pay_before=timezone.now() - timedelta(seconds=1))


def state(placed: Order) -> State:
    placed.refresh_from_db()
    return State(placed.state)


def events() -> Counter[str]:
    return Counter(json.loads(bytes(row.value))["type"] for row in OutboxRow.objects.all())
