"""Lab 8. Money arrives for orders that have expired. Broken: the callback marks the order as paid. Fixed: only an order
that still waits becomes paid; other money is refunded, once. The provider is the sandbox's, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from inventory.handlers import SettlementHandler
from inventory.models import Stock
from loadtest.sandbox.http_server import SandboxResponse, start_server
from loadtest.sandbox.provider import Provider
from orders import expiry, payment_attempts, refunds
from orders.handlers import DecisionHandler
from orders.models import Order, Payment
from orders.states import OrderState, PaymentState
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import purchases
from seckill.messaging.envelope import decode_envelope
from seckill.messaging.models import OutboxRow
from seckill.messaging.records import Batch, Handler, ReceivedRecord
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS
from seckill.stack.child_processes import free_port, wait_until

UNITS, LATE = 10, 4
CAPTURED_AFTER_S = 1.0


def mark_paid(order_id: UUID, before: OrderState, after: OrderState) -> Order:
    """In place of `orders.lifecycle.move_order`: the provider says paid, so it is paid, whatever it was before."""
    Order.objects.filter(id=order_id).update(state=after)
    return Order.objects.get(id=order_id)


def run(step: Step, variant: Variant) -> Observation:
    stock = purchases.create_stock(UNITS)
    provider = Provider(step.folder, settings.ENVIRONMENT.provider_secret)
    with ExitStack() as opened:
        _serve(opened, provider)
        if variant is Variant.BROKEN:
            opened.enter_context(purchases.replaced(payment_attempts, "move_order", mark_paid))
        first = _buy(stock, [f"first-{number}" for number in range(UNITS)])
        _pay(provider, first[LATE:], mode="at_once")
        _wait_paid(UNITS - LATE)
        step.tell(f"{UNITS - LATE} buyers have paid; {LATE} pay, but their bank takes longer than their time to pay")
        _pay(provider, first[:LATE], mode="in_spite", delay_s=CAPTURED_AFTER_S)
        Order.objects.filter(state=OrderState.PENDING_PAYMENT).update(pay_before=Now() - timedelta(seconds=1))
        expiry.expire_due_orders()
        _deliver_messages()
        step.tell(f"their orders have expired, and their {LATE} units go to the next buyers, who pay at once")
        _pay(provider, _buy(stock, [f"next-{number}" for number in range(LATE)], UNITS), mode="at_once")
        wait_until(lambda: _late_payments() == LATE, "the late money")
        step.tell("the late money has arrived")
        while refunds.send_due_refunds():
            pass
    paid = Order.objects.filter(state=OrderState.PAID).count()
    refunded = Payment.objects.filter(state__in=(PaymentState.REFUNDING, PaymentState.REFUNDED)).count()
    bars = (Bar("units", UNITS), Bar("orders that are paid", paid), Bar("paid, but without a unit", paid - UNITS, True))
    return Observation(
        max(0, paid - UNITS),
        {"units of the sale": UNITS, "orders that are paid": paid, "late payments": LATE, "refunded": refunded},
        Chart(y="orders", bars=bars),
    )


def _serve(opened: ExitStack, provider: Provider) -> None:
    """The provider, and the address to which it reports."""
    port, callback_port = free_port(), free_port()
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT,
        provider_url=f"http://127.0.0.1:{port}",
        callback_url=f"http://127.0.0.1:{callback_port}",
    )
    for server in (start_server(port, provider.handle), start_server(callback_port, _receive_callback)):
        opened.callback(server.server_close)
        opened.callback(server.shutdown)
    provider.start()
    opened.callback(provider.stop)


def _receive_callback(method: str, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> SandboxResponse:
    known = payment_attempts.handle_callback(str(body["id"]), UUID(body["payment"]), str(body["kind"]))
    return (200 if known else 404), {}


def _buy(stock: Stock, users: Sequence[str], start: int = 0) -> list[Order]:
    purchases.decide(purchases.batch_of([purchases.request(stock, user) for user in users], start=start))
    _deliver_messages()
    return list(Order.objects.filter(user_id__in=users).order_by("user_id"))


def _pay(provider: Provider, orders: Sequence[Order], **behaviour: object) -> None:
    for order in orders:
        provider.handle("POST", "/control", {**behaviour, "order": str(order.id)}, {})
        payment_attempts.start_attempt(order)


def _wait_paid(count: int) -> None:
    wait_until(lambda: Order.objects.filter(state=OrderState.PAID).count() >= count, f"{count} paid orders")


def _late_payments() -> int:
    """Payments of the first buyers whose money is with us, now or until it was refunded."""
    captured = (PaymentState.CAPTURED, PaymentState.REFUNDING, PaymentState.REFUNDED)
    late = Payment.objects.filter(order__user_id__in=[f"first-{number}" for number in range(LATE)], state__in=captured)
    return late.count()


def _deliver_messages() -> None:
    """What relays, topics and consume loops do: each event goes to the handlers of its topic, in order."""
    readers: dict[str, list[Handler]] = {
        INVENTORY_DECISIONS.name: [DecisionHandler()],
        ORDER_EVENTS.name: [SettlementHandler()],
    }
    while rows := list(OutboxRow.objects.order_by("id")):
        for row in rows:
            record = ReceivedRecord(row.topic, 0, row.id, 0, row.key, decode_envelope(bytes(row.value)))
            for handler in readers[row.topic]:
                with transaction.atomic():
                    handler.handle(Batch("lab", "lab", row.topic, 0, [record]))
        OutboxRow.objects.filter(id__in=[row.id for row in rows]).delete()
