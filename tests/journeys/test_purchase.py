"""A purchase from HTTP to a paid order in a complete stack, and what can go wrong on the way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests.journeys.stack import Buyer, Stack
from tests.otlp import OtlpReceiver, SpanId, receiving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

UNITS = 5
BUYERS = 12
CHANNELS = {"sms", "email", "push"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, receiver: OtlpReceiver) -> Iterator[Stack]:
    """It exports its spans, which must change nothing else."""
    stack = Stack(
        tmp_path_factory.mktemp("stack"), OTEL_EXPORTER_OTLP_ENDPOINT=receiver.address, OTEL_BSP_SCHEDULE_DELAY="200"
    )
    stack.start()
    yield stack
    assert stack.stop() == 0


def test_a_sale_sells_every_unit_once_and_notifies_every_buyer(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    buyers = [Buyer(stack, f"crowd-{number}") for number in range(BUYERS)]
    requests = []
    for buyer in buyers:
        status, accepted = buyer.buy(sale)
        assert status == 202
        requests.append(accepted["request_id"])
    seen = [
        buyer.wait_for(request, "AWAITING_PAYMENT", "SOLD_OUT") for buyer, request in zip(buyers, requests, strict=True)
    ]
    assert Counter(outcome["state"] for outcome in seen) == {"AWAITING_PAYMENT": UNITS, "SOLD_OUT": BUYERS - UNITS}
    winner, outcome = next(
        (buyer, outcome) for buyer, outcome in zip(buyers, seen, strict=True) if outcome["state"] == "AWAITING_PAYMENT"
    )
    assert winner.act(outcome["order_id"], "pay")[0] == 202
    winner.wait_for(outcome["request_id"], "PAID")
    [[declared, available, reserved, sold]] = stack.query(
        "SELECT declared, available, reserved, sold FROM inventory_stock WHERE sale_id = %s", sale
    )
    stack.wait_until(
        lambda: stack.query("SELECT sold FROM inventory_stock WHERE sale_id = %s", sale) == [(1,)], "settlement"
    )
    assert (declared, available, reserved + sold) == (UNITS, 0, UNITS)
    stack.wait_until(lambda: paid_messages(stack, winner.name) == CHANNELS, "three messages")


def paid_messages(stack: Stack, user: str) -> set[str]:
    effects = [line for line in stack.sandbox_log("sinks") if line["what"] == "effect" and line["user"] == user]
    return {line["channel"] for line in effects if "is paid" in line["text"]}


def test_the_same_key_returns_the_same_request_and_refuses_another_body(stack: Stack) -> None:
    sale = stack.create_sale(UNITS, cap=2)
    buyer = Buyer(stack, "impatient")
    first, again = buyer.buy(sale), buyer.buy(sale)
    assert first[0] == again[0] == 202
    assert first[1]["request_id"] == again[1]["request_id"]
    assert buyer.buy(sale, quantity=2)[0] == 422
    buyer.wait_for(first[1]["request_id"], "AWAITING_PAYMENT")
    held = stack.query("SELECT count(*) FROM inventory_hold WHERE user_id = 'impatient'")
    assert held == [(1,)]


def test_a_second_purchase_of_the_same_user_is_refused_as_a_duplicate(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    buyer = Buyer(stack, "greedy")
    first = buyer.buy(sale, "one")[1]["request_id"]
    second = buyer.buy(sale, "two")[1]["request_id"]
    assert buyer.wait_for(first, "AWAITING_PAYMENT")["state"] == "AWAITING_PAYMENT"
    assert buyer.wait_for(second, "DUPLICATE")["state"] == "DUPLICATE"


def test_a_cancelled_order_returns_its_unit_and_its_buyer_may_buy_again(stack: Stack) -> None:
    sale = stack.create_sale(1)
    first, second = Buyer(stack, "undecided"), Buyer(stack, "next")
    request = first.buy(sale)[1]["request_id"]
    order = first.wait_for(request, "AWAITING_PAYMENT")["order_id"]
    assert first.act(order, "cancel")[0] == 202
    stack.wait_until(lambda: first.poll(request)["may_buy_again"], "the unit to be back")
    assert first.poll(request)["state"] == "CANCELLED"
    other = second.buy(sale)[1]["request_id"]
    second.wait_for(other, "AWAITING_PAYMENT")


def test_a_buyer_cannot_see_or_change_another_buyers_purchase(stack: Stack) -> None:
    sale = stack.create_sale(1)
    owner, stranger = Buyer(stack, "owner"), Buyer(stack, "stranger")
    request = owner.buy(sale)[1]["request_id"]
    order = owner.wait_for(request, "AWAITING_PAYMENT")["order_id"]
    assert stack.call("GET", f"/purchases/{request}", token=stranger.token)[0] == 404
    assert stack.call("GET", f"/orders/{order}", token=stranger.token)[0] == 404
    assert stranger.act(order, "pay")[0] == stranger.act(order, "cancel")[0] == 404
    assert stack.call("GET", "/orders")[0] == 401


def test_consumers_killed_during_a_sale_lose_and_double_nothing(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    buyers = [Buyer(stack, f"storm-{number}") for number in range(20)]
    requests = []
    for number, buyer in enumerate(buyers):
        requests.append(buyer.buy(sale)[1]["request_id"])
        if number in (5, 12):
            stack.run_command("kill", "inventory")
            stack.run_command("kill", "orders.1")
    outcomes = [
        buyer.wait_for(request, "AWAITING_PAYMENT", "SOLD_OUT") for buyer, request in zip(buyers, requests, strict=True)
    ]
    assert Counter(outcome["state"] for outcome in outcomes)["AWAITING_PAYMENT"] == UNITS
    decided = stack.query("SELECT count(*), count(DISTINCT request_id) FROM inventory_decided WHERE sale_id = %s", sale)
    assert decided == [(20, 20)]
    orders = stack.query("SELECT count(*) FROM orders_order WHERE sale_id = %s", sale)
    assert orders == [(UNITS,)]


# ── spans (docs/traces.md) ───────────────────────────────────────────────────────────────────────


def buy_in_trace(stack: Stack, buyer: Buyer, sale: int, traceparent: str) -> str:
    """The id of a request that continues the caller's trace."""
    headers = {
        "Authorization": f"Bearer {buyer.token}", "Idempotency-Key": "k", "Purchase-Ticket": buyer.ticket(sale),
        "Content-Type": "application/json", "traceparent": traceparent,
    }  # fmt: skip
    request = Request(f"{stack.gateway}/api/v1/sales/{sale}/purchases", data=b"{}", headers=headers)
    with urlopen(request, timeout=15) as response:
        return str(json.load(response)["request_id"])


def buy_and_pay(stack: Stack, name: str, traceparent: str) -> None:
    """Returns when every channel has its messages."""
    buyer = Buyer(stack, name)
    request = buy_in_trace(stack, buyer, stack.create_sale(1), traceparent)
    assert buyer.act(buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"], "pay")[0] == 202
    buyer.wait_for(request, "PAID")
    stack.wait_until(lambda: paid_messages(stack, name) == CHANNELS, "three messages")


def test_the_spans_of_a_purchase_lead_from_the_click_to_the_sinks(stack: Stack, receiver: OtlpReceiver) -> None:
    not_sampled, sampled = "00-" + "a" * 32 + "-" + "1" * 16 + "-00", "00-" + "b" * 32 + "-" + "2" * 16 + "-01"
    buy_and_pay(stack, "unseen", not_sampled)
    buy_and_pay(stack, "seen-by-a-viewer", sampled)
    received = {
        tuple(line["traceparent"].split("-")[1:3]): line["text"]
        for line in stack.sandbox_log("sinks")
        if line["what"] == "effect" and line["user"] == "seen-by-a-viewer"
    }
    stack.wait_until(lambda: received.keys() <= {span.id for span in receiver.spans()}, "the calls of the sinks")
    calls = [span for span in receiver.spans() if span.id in received]
    traces = {span.trace for span in calls}
    stack.wait_until(lambda: unresolved(receiver, traces) == {("b" * 32, "2" * 16)}, "all parents and links")

    ways = {(received[span.id].split(" is ")[1][:4], *receiver.path_to_root(span)) for span in calls}
    tasks = [f"process notify.{channel}" for channel in sorted(CHANNELS)]
    before = (
        "rese", "POST /api/v1/sales/{sale_id}/purchases", "send purchase.requests", "create inventory.decisions",
        "create order.events",
    )  # fmt: skip
    after = ("paid", "POST /api/v1/payments/callback", "create order.events")
    assert ways == {(*begin, task, "POST") for begin in (before, after) for task in tasks}

    [bought] = [span for span in receiver.spans() if span.parent == ("b" * 32, "2" * 16)]
    [sent] = [span for span in receiver.spans() if span.parent == bought.id]
    [decided] = [span for span in receiver.spans() if span.parent == sent.id]
    [placed] = [span for span in receiver.spans() if span.parent == decided.id]
    assert bought.attributes["http.response.status_code"] == 202
    assert {"messaging.destination.partition.id", "messaging.kafka.offset"} <= sent.attributes.keys()
    notified = {(f"notify.{channel}", "process") for channel in CHANNELS}
    wanted = {
        sent.id: {("inventory", "process")},
        decided.id: {("relay.inventory", "send"), ("orders", "process"), ("gateway.outcomes", "process")},
        placed.id: {
            ("relay.orders", "send"), ("gateway.outcomes", "process"), ("inventory.settlement", "process"), *notified,
        },
    }  # fmt: skip
    stack.wait_until(lambda: {event: batches_of(receiver, event) for event in wanted} == wanted, "the batches")
    provider = f"http://127.0.0.1:{stack.ports['provider']}/payments"
    assert {span.service for span in receiver.find("POST", url__full=provider)} == {"gateway"}

    everything = repr(receiver.spans())
    assert "a" * 32 not in everything, "the sampled-out request has no span and no link"
    assert "seen-by-a-viewer" not in everything and "Bearer" not in everything


def batches_of(receiver: OtlpReceiver, event: SpanId) -> set[tuple[str, str]]:
    """The service and the operation of each batch that links to an event."""
    linked = [span for span in receiver.spans() if event in span.links]
    return {(span.service, span.name.split()[0]) for span in linked if span.kind in ("CLIENT", "CONSUMER")}


def unresolved(receiver: OtlpReceiver, traces: set[str]) -> set[SpanId]:
    """Parents and links of these traces whose spans have not arrived."""
    spans = receiver.spans()
    named = {each for span in spans if span.trace in traces for each in (*span.links, span.parent or span.id)}
    return named - {span.id for span in spans}
