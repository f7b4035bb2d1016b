"""Every process of ours is killed at its fault point, in the middle of a sale; nothing is lost and nothing doubled."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

UNITS = 5
BUYERS = 20
GROUPS = ("inventory", "inventory.settlement", "orders", "gateway.outcomes", "notify.sms", "notify.email")
RELAYS = ("inventory", "orders")


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_sale_with_every_process_killed_once_at_its_fault_point(tmp_path: Path, point: str) -> None:
    points = [f"{group}.{point}" for group in GROUPS] + [f"relay.{writer}.before_delete" for writer in RELAYS]
    stack = Stack(tmp_path / "stack", faults=",".join(f"{name}:once" for name in points))
    stack.start()
    sale = stack.create_sale(UNITS)
    buyers = [Buyer(stack, f"buyer-{number}") for number in range(BUYERS)]
    requests = [buyer.buy(sale)[1]["request_id"] for buyer in buyers]
    outcomes = [
        buyer.wait_for(request, "AWAITING_PAYMENT", "SOLD_OUT") for buyer, request in zip(buyers, requests, strict=True)
    ]
    assert Counter(outcome["state"] for outcome in outcomes) == {"AWAITING_PAYMENT": UNITS, "SOLD_OUT": BUYERS - UNITS}
    winner, outcome = next(
        (buyer, outcome) for buyer, outcome in zip(buyers, outcomes, strict=True) if outcome["state"] != "SOLD_OUT"
    )
    assert winner.act(outcome["order_id"], "pay")[0] == 202
    winner.wait_for(outcome["request_id"], "PAID")
    stack.wait_until(
        lambda: stack.query("SELECT available, reserved, sold FROM inventory_stock") == [(0, UNITS - 1, 1)],
        "settlement",
    )
    assert stack.query("SELECT count(*), count(DISTINCT request_id) FROM inventory_decided") == [(BUYERS, BUYERS)]
    assert stack.query("SELECT count(*), count(DISTINCT request_id) FROM orders_order") == [(UNITS, UNITS)]
    assert stack.query("SELECT count(*) FROM streams_dead_letter") == [(0,)]
    stack.wait_until(lambda: Counter(sms(stack)).keys() >= {buyer_of(stack)}, "a message to the one who has paid")
    assert set(Counter(effects(stack)).values()) == {1}, "no message twice"
    for name in [*GROUPS, *(f"relay.{writer}" for writer in RELAYS)]:
        assert restarts(stack)[name] >= 1, f"{name} was not killed: then this proves nothing about it"
    assert stack.stop() == 0


def effects(stack: Stack) -> list[tuple[str, str, str]]:
    lines = [line for line in stack.evidence("sinks") if line["what"] == "effect"]
    return [(line["channel"], line["user"], line["text"]) for line in lines]


def sms(stack: Stack) -> list[str]:
    return [user for channel, user, text in effects(stack) if channel == "sms" and "is paid" in text]


def buyer_of(stack: Stack) -> str:
    [[user]] = stack.query("SELECT user_id FROM orders_order WHERE state = 'PAID'")
    return str(user)


def restarts(stack: Stack) -> Counter[str]:
    """By service: which of its instances had the work, and died of it, is the group's affair."""
    rows = json.loads(stack.say("status", "--json"))["instances"]
    counted: Counter[str] = Counter()
    for row in rows:
        name, _, number = str(row["name"]).rpartition(".")
        counted[name if number.isdigit() else str(row["name"])] += row["restarts"]
    return counted
