"""A purchase from HTTP to a paid order in a complete stack, and what can go wrong on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

UNITS = 5
BUYERS = 12


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"))
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
    stack.wait_until(lambda: paid_messages(stack, winner.name) == {"sms", "email", "push"}, "three messages")


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
