"""The payment provider's callbacks come too often, out of order, too late; a buyer wants two things at once."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.request

from seckill.environment import DEVELOPMENT_SECRET
from seckill.faults.case import PAYMENT_TTL_S, Acts, case
from seckill.faults.crowd import Buyer, Told, at_once, call
from seckill.faults.world import World

TIMES = 5
UNDECIDED = 10


@case("25", "callback-five-times", "the provider tells five times that it has the money")
def five_times(world: World) -> Acts:
    payment = _paid(world, "callback")
    heard = [_call_back(world, f"cb-{payment}-captured", payment, "captured") for _ in range(TIMES)]
    yield
    world.proves("callbacks that were taken", sum(told.status == 200 for told in heard))
    received = world.query("SELECT received FROM orders_callback WHERE payment_id = %s", payment)
    world.tells("counted", int(received[0][0]))


@case("26", "callbacks-out-of-order", "a refund is told that nobody asked for; unknown, forged and old callbacks")
def out_of_order(world: World) -> Acts:
    payment = _paid(world, "disorder")
    refund = _call_back(world, f"cb-{payment}-refunded", payment, "refunded")
    nobody = "00000000-0000-4000-8000-000000000000"
    unknown = _call_back(world, "cb-unknown", nobody, "captured")
    forged = _call_back(world, "cb-forged", payment, "captured", secret="somebody else's")
    old = _call_back(world, "cb-old", payment, "captured", age_s=3600)
    yield
    world.tells("the refund nobody asked for was answered", refund.status)
    world.proves("unknown payment refused", unknown.status == 404)
    world.proves("forged signature refused", forged.status == 401)
    world.proves("old signature refused", old.status == 401)


@case("29", "cancel-and-pay", "orders are cancelled and paid at the same instant")
def cancel_and_pay(world: World) -> Acts:
    with world.book("undecided", world.create_sale(UNDECIDED)) as book:
        buyers = [Buyer(world.gateway, f"undecided-{number}", book.sale, book) for number in range(UNDECIDED)]
        requests = [buyer.buy().request for buyer in buyers]
        both = 0
        for buyer, request in zip(buyers, requests, strict=True):
            order = buyer.wait_for(request, "AWAITING_PAYMENT", "EXPIRED")["order_id"]
            told = at_once([lambda b=buyer, o=order: b.act(o, "pay"), lambda b=buyer, o=order: b.act(o, "cancel")])  # type: ignore[misc]
            both += all(answer.status in (202, 409) for answer in told)
    yield
    world.proves("orders asked for both at once", both)
    for state in ("PAID", "CANCELLED"):
        world.tells(state.lower(), world.count("orders_order WHERE sale_id = %s AND state = %s", book.sale, state))


@case("27", "payment-after-expiry", "the money comes when the order has expired: it goes back, once")
def after_expiry(world: World) -> Acts:
    """The provider takes the money in spite of having been told to forget it, as banks do."""
    with world.book("late-payer", world.create_sale(2)) as book:
        buyer = Buyer(world.gateway, "late-payer", book.sale, book)
        request = buyer.buy().request
        order = buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"]
        control(world, "provider", mode="in_spite", delay_s=PAYMENT_TTL_S + 3, order=order)
        buyer.act(order, "pay")
        buyer.wait_for(request, "EXPIRED")
        world.wait_until(
            lambda: world.count("orders_payment WHERE order_id = %s AND state = 'refunded'", order), "the refund"
        )
    yield
    world.proves("refunded", world.count("orders_payment WHERE order_id = %s AND state = 'refunded'", order))
    world.proves("still expired", world.count("orders_order WHERE id = %s AND state = 'EXPIRED'", order))


def _paid(world: World, name: str) -> str:
    """A buyer who has paid; the id of his payment."""
    with world.book(name, world.side_sale) as book:
        buyer = Buyer(world.gateway, name, book.sale, book)
        request = buyer.buy().request
        order = buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"]
        buyer.act(order, "pay")
        buyer.wait_for(request, "PAID")
    [[payment]] = world.query("SELECT id::text FROM orders_payment WHERE order_id = %s", order)
    return str(payment)


def _call_back(
    world: World, callback: str, payment: str, kind: str, *, secret: str = DEVELOPMENT_SECRET, age_s: int = 0
) -> Told:
    """What the provider would send."""
    body = {"id": callback, "payment": payment, "kind": kind}
    at_s = int(time.time()) - age_s
    digest = hmac.new(secret.encode(), f"{at_s}.".encode() + json.dumps(body).encode(), hashlib.sha256).hexdigest()
    return call(world.gateway, "POST", "/payments/callback", body, {"X-Provider-Signature": f"t={at_s},v1={digest}"})


def control(world: World, server: str, **words: object) -> None:
    """Tell the outside world how to behave from now on."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{world.ports[server]}/control",
        data=json.dumps(words).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()
