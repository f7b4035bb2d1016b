"""Orders, payments and messages in a complete stack: refunds, failing sinks, a missing Celery worker."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka import KafkaConsumer, KafkaProducer
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
    """A buyer with an unpaid order: the buyer, the sale, the request, the order."""
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
    """Set how the payment provider or the sinks behave."""
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
    """How often each channel has delivered a message with this text to the user."""
    lines = [line for line in stack.sandbox_log("sinks") if line["what"] == "effect" and line["user"] == user]
    return Counter(line["channel"] for line in lines if text in line["text"])


def stock(stack: Stack, sale: int) -> tuple[int, int, int]:
    [row] = stack.query("SELECT available, reserved, sold FROM inventory_stock WHERE sale_id = %s", sale)
    return row[0], row[1], row[2]


def test_a_refund_with_units_returns_the_money_once_and_the_unit_to_the_next_buyer(stack: Stack) -> None:
    buyer, sale, request, order = paid(stack, "unhappy")
    stack.wait_until(lambda: stock(stack, sale) == (0, 0, 1), "the unit to be sold")
    assert "REFUNDED" in stack.run_command("refund", order, "--return-units", "--because", "broken")
    buyer.wait_for(request, "REFUNDED")
    stack.wait_until(lambda: stock(stack, sale) == (1, 0, 0), "the unit to be back")
    stack.wait_until(lambda: buyer.poll(request)["may_buy_again"], "the buyer to be told")
    ledger = stack.query("SELECT kind FROM inventory_ledger WHERE request_id = %s ORDER BY version", request)
    assert [kind for (kind,) in ledger] == ["reserve", "sell", "return"]
    stack.wait_until(lambda: money(stack, order) == {"opened": 1, "captured": 1, "refunded": 1}, "the money to be back")
    [row] = json.loads(stack.run_command("audit", "--json", "--verb", "refund"))
    assert (row["target"], row["result"], row["arguments"]["because"]) == (order, "done", "broken")
    assert json.loads(stack.run_command("reconcile", "--dry-run", "--json"))["found"] == []


def money(stack: Stack, order: str) -> Counter[str]:
    return Counter(line["what"] for line in stack.sandbox_log("provider") if line.get("order") == order)


def test_a_payment_without_a_callback_is_found_in_the_providers_log(stack: Stack) -> None:
    """Neither callback arrives, and one payment belongs to no order."""
    buyer, _, request, order = ordered(stack, "unheard")
    control(stack, "provider", order=order, mode="silent")
    assert buyer.act(order, "pay")[0] == 202
    buyer.wait_for(request, "PAID")
    orphan = {"id": str(uuid4()), "order_id": "elsewhere", "amount": 7, "callback_url": "http://127.0.0.1:9/"}
    post(stack, "provider", "/payments", orphan)
    stack.wait_until(lambda: money(stack, "elsewhere")["refunded"] == 1, "the orphan's money to go back")
    known = "SELECT state FROM orders_discrepancy WHERE payment_id = %s"
    stack.wait_until(lambda: stack.query(known, orphan["id"]) == [("settled",)], "the orphan to be settled")


def test_a_refund_without_units_leaves_them_sold(stack: Stack) -> None:
    buyer, sale, request, order = paid(stack, "keeper")
    stack.wait_until(lambda: stock(stack, sale) == (0, 0, 1), "the unit to be sold")
    stack.run_command("refund", order)
    buyer.wait_for(request, "REFUNDED")
    stack.wait_until(lambda: set(effects(stack, "keeper", "is refunded")) == CHANNELS, "three messages")
    assert stock(stack, sale) == (0, 0, 1)


def test_without_celery_orders_still_expire_and_messages_are_sent_when_it_is_back(stack: Stack) -> None:
    """Celery is stopped for the whole time to pay, because the sweep expires orders, not Celery."""
    stack.run_command("stop", "celery")
    buyer, sale, request, order = ordered(stack, "forgetful")
    stack.query("UPDATE orders_order SET pay_before = now() WHERE id = %s RETURNING id", order)
    buyer.wait_for(request, "EXPIRED")
    stack.wait_until(lambda: stock(stack, sale) == (1, 0, 0), "the unit to be back")
    assert not effects(stack, "forgetful", "")
    with Redis(port=stack.ports["redis"], db=1) as queues:
        queues.flushdb()
    stack.run_command("start", "celery")
    stack.wait_until(lambda: effects(stack, "forgetful", "has ended") == dict.fromkeys(CHANNELS, 1), "messages, once")


def test_killing_a_worker_in_the_middle_of_messages_loses_and_doubles_none(stack: Stack) -> None:
    for channel in CHANNELS:
        control(stack, "sinks", channel=channel, mode="cut", times=1)
    buyer, _, _, order = ordered(stack, "storm")
    stack.run_command("kill", "celery")
    assert buyer.act(order, "cancel")[0] == 202
    once = dict.fromkeys(CHANNELS, 1)
    stack.wait_until(lambda: effects(stack, "storm", "is reserved") == once, "the first message, once")
    stack.wait_until(lambda: effects(stack, "storm", "is cancelled") == once, "the second message, once")


def test_a_failing_sink_delays_only_its_own_channel_and_catches_up(stack: Stack) -> None:
    control(stack, "sinks", channel="sms", mode="fail")
    paid(stack, "patient")
    stack.wait_until(lambda: set(effects(stack, "patient", "is paid")) == {"email", "push"}, "the other channels")
    control(stack, "sinks", channel="sms", mode="ok")
    stack.wait_until(lambda: effects(stack, "patient", "is paid") == dict.fromkeys(CHANNELS, 1), "the third channel")


def test_a_hanging_sink_delays_only_its_own_channel_and_delivers_once_afterwards(stack: Stack) -> None:
    users = [
        f"calm-{number}" for number in range(3)
    ]  # together they get more messages than the circuit breaker tolerates

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
    assert told("is reserved") == once


def test_a_reservation_that_cannot_become_an_order_is_released_for_the_next_buyer(stack: Stack) -> None:
    """An operator has set a price by hand that is too large for an order."""
    sale = stack.create_sale(2, cap=2)
    price = "UPDATE inventory_stock SET unit_price = %s WHERE sale_id = %s RETURNING id"
    stack.query(price, 2**62, sale)
    buyer = Buyer(stack, "unlucky")
    request = buyer.buy(sale, quantity=2)[1]["request_id"]
    of_orders = "SELECT id, state FROM streams_dead_letter WHERE consumer_group = 'orders'"
    stack.wait_until(lambda: stack.query(of_orders), "the dead letter")
    [[letter, _]] = stack.query(of_orders)
    assert buyer.poll(request)["state"] == "RESERVED" and stock(stack, sale) == (0, 2, 0)
    assert "discarded" in stack.run_command("letters", "discard", str(letter), "--yes", "--because", "a wrong price")
    stack.wait_until(lambda: buyer.poll(request)["may_buy_again"], "the units to be back")
    assert (buyer.poll(request)["state"], stock(stack, sale)) == ("NOT_PLACED", (2, 0, 0))
    stack.query(price, 100, sale)
    buyer.wait_for(buyer.buy(sale, "again", quantity=2)[1]["request_id"], "AWAITING_PAYMENT")


def test_the_trace_of_a_request_ends_in_the_sinks(stack: Stack) -> None:
    _, _, request, _ = ordered(stack, "followed")
    stack.wait_until(lambda: set(effects(stack, "followed", "is reserved")) == CHANNELS, "three messages")
    traces = {line["traceparent"][3:35] for line in stack.sandbox_log("sinks") if line.get("user") == "followed"}
    assert traces == {UUID(request).hex}


def test_events_of_version_1_are_read_beside_new_ones(stack: Stack) -> None:
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
    stack.wait_until(lambda: stack.query(settled, event) == [(1,)], "inventory's settlement to read it")
    assert stack.query("SELECT reason FROM streams_dead_letter WHERE consumer_group <> 'orders'") == []


def test_the_callers_trace_reaches_the_order(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "traced")
    trace = "0af7651916cd43dd8448eb211c80319c"
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.ports['gateway']}/api/v1/sales/{sale}/purchases",
        data=b"{}",
        headers={
            "Authorization": f"Bearer {buyer.token}", "Idempotency-Key": "k", "Purchase-Ticket": buyer.ticket(sale),
            "Content-Type": "application/json", "traceparent": f"00-{trace}-b7ad6b7169203331-01",
        },
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=15) as answer:
        accepted = json.load(answer)
    buyer.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    for topic in ("purchase.requests", "inventory.decisions", "order.events"):
        assert trace in of_user(stack, topic, "traced"), topic


def of_user(stack: Stack, topic: str, user: str) -> set[str]:
    """The trace ids of a user's records."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=f"127.0.0.1:{stack.ports['broker']}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
    )
    try:
        records = [record for record in consumer if record.key == user.encode()]
    finally:
        consumer.close()
    return {
        value.decode().split("-")[1] for record in records for name, value in record.headers if name == "traceparent"
    }
