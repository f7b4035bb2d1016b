"""The payment provider calls back too often, out of order or too late, and buyers cancel while they pay."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.request

from seckill.config.environment import DEVELOPMENT_SECRET
from seckill.lab.faults.case import PAYMENT_TTL_S, Steps, case
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import ApiResponse, at_once, call_api

CALLBACKS = 5
UNDECIDED = 10


@case("25", "callback-five-times", "the provider reports the same payment five times")
def five_callbacks(run: FaultRun) -> Steps:
    payment = _paid_payment(run, "callback")
    responses = [_call_back(run, f"cb-{payment}-captured", payment, "captured") for _ in range(CALLBACKS)]
    yield
    run.prove("callbacks accepted", sum(response.status == 200 for response in responses))
    run.record("callbacks counted", run.stack.database.callbacks_received(payment))


@case(
    "26", "callbacks-out-of-order",
    "the provider reports a refund that was never requested; other callbacks are unknown, forged or an hour old",
)  # fmt: skip
def out_of_order(run: FaultRun) -> Steps:
    payment = _paid_payment(run, "disorder")
    refund = _call_back(run, f"cb-{payment}-refunded", payment, "refunded")
    unknown = _call_back(run, "cb-unknown", "00000000-0000-4000-8000-000000000000", "captured")
    forged = _call_back(run, "cb-forged", payment, "captured", secret="another secret")
    old = _call_back(run, "cb-old", payment, "captured", age_s=3600)
    yield
    run.record("response to the refund that was never requested", refund.status)
    run.prove("unknown payment refused", unknown.status == 404)
    run.prove("forged signature refused", forged.status == 401)
    run.prove("old signature refused", old.status == 401)


@case("29", "cancel-and-pay", "buyers cancel their orders and pay for them at the same instant")
def cancel_and_pay(run: FaultRun) -> Steps:
    with run.buyer_log("undecided", run.stack.create_sale(UNDECIDED)) as log:
        buyers = [run.buyer(f"undecided-{number}", log) for number in range(UNDECIDED)]
        requests = [buyer.buy().request for buyer in buyers]
        both = 0
        for buyer, request in zip(buyers, requests, strict=True):
            order = buyer.wait_for(request, "AWAITING_PAYMENT", "EXPIRED")["order_id"]
            responses = at_once([lambda b=buyer, o=order: b.act(o, "pay"), lambda b=buyer, o=order: b.act(o, "cancel")])  # type: ignore[misc]
            both += all(response.status in (202, 409) for response in responses)
    yield
    run.prove("orders cancelled and paid at once", both)
    for state in ("PAID", "CANCELLED"):
        run.record(state.lower(), run.stack.database.orders(state, log.sale))


@case("27", "payment-after-expiry", "the provider captures a payment after its order expired: it is refunded once")
def after_expiry(run: FaultRun) -> Steps:
    """The provider captures the payment although it was voided, as banks sometimes do."""
    database = run.stack.database
    with run.buyer_log("late-payer", run.stack.create_sale(2)) as log:
        buyer = run.buyer("late-payer", log)
        request = buyer.buy().request
        order = str(buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"])
        control_sandbox(run, "provider", mode="in_spite", delay_s=PAYMENT_TTL_S + 3, order=order)
        buyer.act(order, "pay")
        buyer.wait_for(request, "EXPIRED")
        run.stack.wait_until(lambda: database.refunded_payments(order), "the refund")
    yield
    run.prove("refunded", database.refunded_payments(order))


def _paid_payment(run: FaultRun, name: str) -> str:
    """A buyer's payment that the provider has captured."""
    with run.buyer_log(name, run.side_sale) as log:
        buyer = run.buyer(name, log)
        request = buyer.buy().request
        order = str(buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"])
        buyer.act(order, "pay")
        buyer.wait_for(request, "PAID")
    return run.stack.database.payment_of(order)


def _call_back(
    run: FaultRun, callback: str, payment: str, kind: str, *, secret: str = DEVELOPMENT_SECRET, age_s: int = 0
) -> ApiResponse:
    """Send what the provider would send."""
    body = {"id": callback, "payment": payment, "kind": kind}
    at_s = int(time.time()) - age_s
    digest = hmac.new(secret.encode(), f"{at_s}.".encode() + json.dumps(body).encode(), hashlib.sha256).hexdigest()
    headers = {"X-Provider-Signature": f"t={at_s},v1={digest}"}
    return call_api(run.stack.gateway, "POST", "/payments/callback", body, headers)


def control_sandbox(run: FaultRun, server: str, **settings: object) -> None:
    """Change how the payment provider or the message sinks behave from now on."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{run.stack.ports[server]}/control",
        data=json.dumps(settings).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()
