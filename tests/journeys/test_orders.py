"""Orders, money and messages with every process there is: refunds, neighbours that fail, a worker that is not there."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka import KafkaProducer
from redis import Redis

from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CHANNELS = {"sms", "email", "push"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"))
    stack.start()
    yield stack
    assert stack.stop() == 0


def ordered(stack: Stack, user: str) -> tuple[Buyer, int, str, str]:
    """A buyer with an order that waits for his money: he, the sale, the request, the order."""
    sale = stack.create_sale(1)
    buyer = Buyer(stack, user)
    request = buyer.buy(sale)[1]["request_id"]
    return buyer, sale, request, buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"]


def paid(stack: Stack, user: str) -> tuple[Buyer, int, str, str]:
    buyer, sale, request, order = ordered(stack, user)
    assert buyer.act(order, "pay")[0] == 202
    buyer.wait_for(request, "PAID")
    return buyer, sale, request, order


def control(stack: Stack, port: str, **said: Any) -> None:
    """Tell the outside world how to behave."""
    post(stack, port, "/control", said)


def post(stack: Stack, port: str, path: str, said: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.ports[port]}{path}",
        data=json.dumps(said).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def effects(stack: Stack, user: str, text: str) -> Counter[str]:
    """How often each channel has told him this."""
    lines = [line for line in stack.evidence("sinks") if line["what"] == "effect" and line["user"] == user]
    return Counter(line["channel"] for line in lines if text in line["text"])


def stock(stack: Stack, sale: int) -> tuple[int, int, int]:
    [row] = stack.query("SELECT available, reserved, sold FROM inventory_stock WHERE sale_id = %s", sale)
    return row[0], row[1], row[2]


def test_a_refund_with_its_units_gives_the_money_back_once_and_the_unit_to_the_next(stack: Stack) -> None:
    buyer, sale, request, order = paid(stack, "unhappy")
    stack.wait_until(lambda: stock(stack, sale) == (0, 0, 1), "the unit to be sold")
    assert "REFUNDED" in stack.say("refund", order, "--return-units", "--because", "broken")
    buyer.wait_for(request, "REFUNDED")
    stack.wait_until(lambda: stock(stack, sale) == (1, 0, 0), "the unit to be back")
    stack.wait_until(lambda: buyer.look(request)["may_buy_again"], "the buyer to be told")
    ledger = stack.query("SELECT kind FROM inventory_ledger WHERE request_id = %s ORDER BY version", request)
    assert [kind for (kind,) in ledger] == ["reserve", "sell", "return"]
    stack.wait_until(lambda: money(stack, order) == {"opened": 1, "captured": 1, "refunded": 1}, "the money to be back")
    [row] = json.loads(stack.say("audit", "--json", "--verb", "refund"))
    assert (row["target"], row["result"], row["arguments"]["because"]) == (order, "done", "broken")
    assert json.loads(stack.say("reconcile", "--dry-run", "--json"))["found"] == []


def money(stack: Stack, order: str) -> Counter[str]:
    return Counter(line["what"] for line in stack.evidence("provider") if line.get("order") == order)


def test_money_that_nobody_told_us_of_is_found_in_the_providers_log(stack: Stack) -> None:
    """Callbacks that never come, and a payment that was never ours."""
    buyer, _, request, order = ordered(stack, "unheard")
    control(stack, "provider", order=order, mode="silent")
    assert buyer.act(order, "pay")[0] == 202
    buyer.wait_for(request, "PAID")
    orphan = {"id": str(uuid4()), "order_id": "elsewhere", "amount": 7, "callback_url": "http://127.0.0.1:9/"}
    post(stack, "provider", "/payments", orphan)
    stack.wait_until(lambda: money(stack, "elsewhere")["refunded"] == 1, "the orphan's money to go back")
    known = "SELECT state FROM orders_discrepancy WHERE payment_id = %s"
    stack.wait_until(lambda: stack.query(known, orphan["id"]) == [("settled",)], "the orphan to be settled")


def test_a_refund_without_its_units_leaves_them_sold(stack: Stack) -> None:
    buyer, sale, request, order = paid(stack, "keeper")
    stack.wait_until(lambda: stock(stack, sale) == (0, 0, 1), "the unit to be sold")
    stack.say("refund", order)
    buyer.wait_for(request, "REFUNDED")
    stack.wait_until(lambda: set(effects(stack, "keeper", "is refunded")) == CHANNELS, "three messages")
    assert stock(stack, sale) == (0, 0, 1)


def test_without_celery_an_order_ends_all_the_same_and_messages_come_when_it_is_back(stack: Stack) -> None:
    """Celery is away for the whole time to pay: its end is decided elsewhere."""
    stack.say("stop", "celery")
    buyer, sale, request, order = ordered(stack, "forgetful")
    stack.query("UPDATE orders_order SET pay_before = now() WHERE id = %s RETURNING id", order)
    buyer.wait_for(request, "EXPIRED")
    stack.wait_until(lambda: stock(stack, sale) == (1, 0, 0), "the unit to be back")
    assert not effects(stack, "forgetful", "")
    with Redis(port=stack.ports["redis"], db=1) as queues:
        queues.flushdb()
    stack.say("start", "celery")
    stack.wait_until(lambda: effects(stack, "forgetful", "has ended") == dict.fromkeys(CHANNELS, 1), "messages, once")


def test_a_worker_killed_with_messages_on_their_way_loses_and_doubles_none(stack: Stack) -> None:
    for channel in CHANNELS:
        control(stack, "sinks", channel=channel, mode="cut", times=1)
    buyer, _, _, order = ordered(stack, "storm")
    stack.say("kill", "celery")
    assert buyer.act(order, "cancel")[0] == 202
    once = dict.fromkeys(CHANNELS, 1)
    stack.wait_until(lambda: effects(stack, "storm", "is held") == once, "the first message, once")
    stack.wait_until(lambda: effects(stack, "storm", "is cancelled") == once, "the second message, once")


def test_a_sink_that_fails_holds_up_its_own_channel_only_and_is_caught_up_with(stack: Stack) -> None:
    control(stack, "sinks", channel="sms", mode="fail")
    paid(stack, "patient")
    stack.wait_until(lambda: set(effects(stack, "patient", "is paid")) == {"email", "push"}, "the other channels")
    control(stack, "sinks", channel="sms", mode="ok")
    stack.wait_until(lambda: effects(stack, "patient", "is paid") == dict.fromkeys(CHANNELS, 1), "the third channel")


def test_a_sink_that_hangs_holds_up_its_own_channel_only_and_tells_once_when_it_is_back(stack: Stack) -> None:
    users = [f"calm-{number}" for number in range(3)]  # with more messages than the breaker bears

    def told(text: str) -> list[Counter[str]]:
        return [effects(stack, user, text) for user in users]

    control(stack, "sinks", channel="push", mode="hang")
    try:
        for user in users:
            paid(stack, user)
        others = [dict.fromkeys(CHANNELS - {"push"}, 1)] * len(users)
        stack.wait_until(lambda: told("is paid") == others, "the other channels")
    finally:
        control(stack, "sinks", channel="push", mode="ok")
    once = [dict.fromkeys(CHANNELS, 1)] * len(users)
    stack.wait_until(lambda: told("is paid") == once, "the third channel")
    assert told("is held") == once


def test_a_reservation_that_no_order_can_come_of_is_given_up_and_its_unit_goes_to_the_next(stack: Stack) -> None:
    """Somebody has put a price in by hand that an order cannot keep."""
    sale = stack.create_sale(2, cap=2)
    price = "UPDATE inventory_stock SET unit_price = %s WHERE sale_id = %s RETURNING id"
    stack.query(price, 2**62, sale)
    buyer = Buyer(stack, "unlucky")
    request = buyer.buy(sale, quantity=2)[1]["request_id"]
    of_orders = "SELECT id, state FROM streams_dead_letter WHERE consumer_group = 'orders'"
    stack.wait_until(lambda: stack.query(of_orders), "the dead letter")
    [[letter, _]] = stack.query(of_orders)
    assert buyer.look(request)["state"] == "RESERVED" and stock(stack, sale) == (0, 2, 0)
    assert "discarded" in stack.say("letters", "discard", str(letter), "--yes", "--because", "a wrong price")
    stack.wait_until(lambda: buyer.look(request)["may_buy_again"], "the units to be back")
    assert (buyer.look(request)["state"], stock(stack, sale)) == ("NOT_PLACED", (2, 0, 0))
    stack.query(price, 100, sale)
    buyer.wait_for(buyer.buy(sale, "again", quantity=2)[1]["request_id"], "AWAITING_PAYMENT")


def test_the_trace_of_a_request_ends_in_the_sinks(stack: Stack) -> None:
    _, _, request, _ = ordered(stack, "followed")
    stack.wait_until(lambda: set(effects(stack, "followed", "is held")) == CHANNELS, "three messages")
    traces = {line["traceparent"][3:35] for line in stack.evidence("sinks") if line.get("user") == "followed"}
    assert traces == {UUID(request).hex}


def test_a_message_of_the_first_version_is_read_beside_the_new_ones(stack: Stack) -> None:
    event, order = uuid4(), uuid4()
    body = {
        "order_id": str(order), "request_id": str(uuid4()), "user_id": "old", "sale_id": 1, "sku": "phone",
        "quantity": 1, "amount": 100, "at_ms": 1, "pay_before_ms": 2, "return_units": False,
    }  # fmt: skip
    said = {"event_id": str(event), "type": "OrderRefunded", "version": 1, "body": body}
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{stack.ports['broker']}")
    try:
        producer.send("order.events", key=b"old", value=json.dumps(said).encode()).get(30)
    finally:
        producer.close()
    stack.wait_until(lambda: effects(stack, "old", "is refunded") == dict.fromkeys(CHANNELS, 1), "three messages")
    settled = "SELECT count(*) FROM inventory_settled WHERE event_id = %s"
    stack.wait_until(lambda: stack.query(settled, event) == [(1,)], "settlement to have read it")
    assert stack.query("SELECT reason FROM streams_dead_letter WHERE consumer_group <> 'orders'") == []
