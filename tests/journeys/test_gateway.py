"""The gateway in a running stack while other parts hang, stop, lose their data or run out of units."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from redis import Redis

from tests.journeys.gateway_cast import DEADLINE_S, buy_and_pay, frozen, gateway_stack, units
from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

POOL = 16  # connections to the database (gateway/app.py)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    with gateway_stack(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def stack(running: tuple[Stack, str]) -> Stack:
    return running[0]


@pytest.fixture
def gate_redis(running: tuple[Stack, str]) -> str:
    return running[1]


# ── two Redis servers ─────────────────────────────────────────────────────────────────────────────


def test_admission_and_gate_use_two_different_redis_servers(stack: Stack, gate_redis: str) -> None:
    sale = stack.create_sale(1)
    buy_and_pay(stack, Buyer(stack, "ann"), sale)
    ours, theirs = Redis(port=stack.ports["redis"], decode_responses=True), Redis.from_url(gate_redis)
    assert stack.call("GET", f"/sales/{sale}")[1]["state"] == "open"
    assert sale in [each["id"] for each in stack.call("GET", "/sales")[1]["sales"]]
    assert any(f"sale:{{{sale}}}:gate:".encode() in key for key in theirs.scan_iter())
    assert not any(":gate:" in key for key in ours.scan_iter())
    assert not any(b"admission" in key or b":view" in key for key in theirs.scan_iter())


# ── the queue is too long ─────────────────────────────────────────────────────────────────────────


def test_a_queue_longer_than_the_deadline_accepts_no_request_until_it_is_shorter(stack: Stack) -> None:
    """The expected pace is one decision per second; the real pace is known only once inventory runs."""
    sale = stack.create_sale(500)
    stack.run_command("stop", "inventory")

    def buy_as(number: int) -> tuple[Buyer, int, dict[str, Any]]:
        buyer = Buyer(stack, f"crowd-{number}")
        return buyer, *buyer.buy(sale)

    with ThreadPoolExecutor(8) as pool:
        crowd = list(pool.map(buy_as, range(DEADLINE_S + 10)))
    inside = [(buyer, body["request_id"]) for buyer, status, body in crowd if status == 202]

    def attempt(newcomer: Buyer, ticket: str) -> tuple[int, Message, dict[str, Any]]:
        address = f"/sales/{sale}/purchases"
        return stack.call_with_headers("POST", address, {}, token=newcomer.token, key="k", ticket=ticket)

    def find_refused() -> tuple[Buyer, str, Message, dict[str, Any]] | None:
        """A buyer whose request was refused; one request per second passes."""
        newcomer = Buyer(stack, f"newcomer-{uuid4().hex[:8]}")
        ticket = newcomer.ticket(sale)
        status, headers, said = attempt(newcomer, ticket)
        return (newcomer, ticket, headers, said) if status == 503 else None

    try:
        stack.wait_until(lambda: Buyer(stack, "one-more").buy(sale, str(uuid4()))[0] == 503, "admission to refuse")
        newcomer, ticket, headers, said = next(filter(None, (find_refused() for _ in range(50))))
        assert said["type"] == "/problems/queue-too-long"
        assert int(headers["Retry-After"]) >= 1 and said["wait_ms"] > DEADLINE_S * 1000
        first, request = inside[0]
        assert first.buy(sale)[1]["request_id"] == request, "an accepted buyer gets the same answer again"
        assert first.poll(request)["state"] == "QUEUED"
        assert stack.call("GET", f"/sales/{sale}")[0] == stack.call("GET", "/orders", token=first.token)[0] == 200
    finally:
        stack.run_command("start", "inventory")
    stack.wait_until(lambda: attempt(newcomer, ticket)[0] == 202, "the newcomer to be accepted")
    decided = "SELECT count(*), count(DISTINCT request_id) FROM inventory_decided WHERE decision = 'RESERVED'"
    one = "SELECT count(*) FROM inventory_decided WHERE user_id = %s"
    stack.wait_until(lambda: stack.query(one, newcomer.name) == [(1,)], "a decision for the newcomer")
    crowds = decided + " AND sale_id = %s AND user_id LIKE 'crowd-%%'"
    stack.wait_until(lambda: stack.query(crowds, sale)[0][0] >= len(inside), "decisions for all buyers before")
    assert stack.query(crowds, sale) == [(len(inside), len(inside))]


# ── the database has no connection left ───────────────────────────────────────────────────────────


def test_when_all_database_connections_are_busy_orders_answer_503_and_purchases_go_on(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer, other = Buyer(stack, "waiting"), Buyer(stack, "meanwhile")
    buyer.wait_for(buyer.buy(sale)[1]["request_id"], "AWAITING_PAYMENT")

    def get_orders(_: int) -> tuple[int, Message, dict[str, Any]]:
        return stack.call_with_headers("GET", "/orders", token=buyer.token)

    with ThreadPoolExecutor(2 * POOL) as pool:
        with psycopg.connect(stack.database) as locker:
            locker.execute("LOCK TABLE orders_order")
            asked = [pool.submit(get_orders, number) for number in range(2 * POOL)]
            stack.wait_until(lambda: sum(each.done() for each in asked) >= POOL, "the requests without a connection")
            refused = [each.result() for each in asked if each.done()]
            status, headers, said = refused[0]
            assert (status, said["type"], int(headers["Retry-After"])) == (503, "/problems/database-unavailable", 2)
            assert stack.call("GET", f"/sales/{sale}")[0] == 200
            assert other.buy(sale)[0] == 202
            for path in ("/", "/livez"):
                page = f"http://127.0.0.1:{stack.ports['gateway']}{path}"
                assert urllib.request.urlopen(page, timeout=15).status == 200
            assert not all(each.done() for each in asked), "some are still waiting"
        told = Counter(each.result()[0] for each in asked)
    assert told == {503: len(refused), 200: 2 * POOL - len(refused)}
    assert get_orders(0)[0] == 200


# ── the broker stalls ─────────────────────────────────────────────────────────────────────────────


def test_a_stalled_broker_affects_only_purchases_and_a_retry_returns_the_outcome(stack: Stack) -> None:
    sale = stack.create_sale(100)
    crowd = [Buyer(stack, f"stall-{number}") for number in range(80)]
    tickets = [buyer.ticket(sale) for buyer in crowd]

    def buy(buyer: Buyer, ticket: str) -> tuple[int, dict[str, Any]]:
        return stack.call("POST", f"/sales/{sale}/purchases", {}, token=buyer.token, key="k", ticket=ticket)

    with ThreadPoolExecutor(80) as pool, frozen(stack, "mqcore"):
        asked = [pool.submit(buy, buyer, ticket) for buyer, ticket in zip(crowd, tickets, strict=True)]
        while not all(each.done() for each in asked):
            assert stack.call("GET", f"/sales/{sale}")[0] == 200
            assert stack.call("GET", "/orders", token=crowd[0].token)[0] == 200
            assert urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['gateway']}/livez", timeout=15).status == 200
        told = [each.result() for each in asked]
        assert {status for status, _ in told} == {503}
        assert {body["type"].rpartition("-")[0] for _, body in told} == {"/problems/queue"}

    def accepted(buyer: Buyer, ticket: str) -> bool:
        return buy(buyer, ticket)[0] == 202

    for buyer, ticket in zip(crowd, tickets, strict=True):
        stack.wait_until(lambda buyer=buyer, ticket=ticket: accepted(buyer, ticket), f"{buyer.name} to be accepted")  # type: ignore[misc]
    stack.wait_until(lambda: units(stack, sale)[0] == 20, "all to be decided")
    counts = stack.query("SELECT count(*), count(DISTINCT request_id) FROM inventory_decided WHERE sale_id = %s", sale)
    assert counts == [(80, 80)]


# ── the queue ─────────────────────────────────────────────────────────────────────────────────────


def test_a_waiting_buyer_sees_the_place_in_the_queue_without_the_projection(stack: Stack) -> None:
    sale = stack.create_sale(100)
    stack.run_command("stop", "inventory")
    crowd = [Buyer(stack, f"queue-{number}") for number in range(30)]
    places = [buyer.buy(sale)[1] for buyer in crowd]
    try:
        last, accepted = crowd[-1], places[-1]
        address = accepted["status_url"].removeprefix("/api/v1")
        stack.wait_until(
            lambda: (stack.call("GET", address, token=last.token)[1].get("position") or 0) > 0, "a place in the queue"
        )
        seen = stack.call("GET", address, token=last.token)[1]
        assert (seen["state"], seen["deadline_ms"]) == ("QUEUED", accepted["deadline_ms"])
        assert seen["position"] <= 30
        assert stack.call("GET", address, token=crowd[0].token)[0] == 404, "it is another buyer's"
        assert stack.call("GET", address + "x", token=last.token)[1]["state"] == "QUEUED", "Redis knows it as well"
    finally:
        stack.run_command("start", "inventory")
    for buyer, place in zip(crowd, places, strict=True):
        buyer.wait_for(place["request_id"], "AWAITING_PAYMENT")


def test_what_redis_has_forgotten_is_read_from_the_projection(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "remembered")
    accepted = buy_and_pay(stack, buyer, sale)
    Redis(port=stack.ports["redis"]).flushall()
    assert buyer.poll(accepted["request_id"])["state"] == "PAID"
    stack.wait_until(lambda: has_view(stack, sale), "inventory to publish the sale again")
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to show the sale")
    status, again = buyer.buy(sale)
    assert (status, again["request_id"]) == (202, accepted["request_id"])
    address = again["status_url"].removeprefix("/api/v1")
    assert stack.call("GET", address, token=buyer.token)[1]["state"] == "PAID", "it is not queued again"


def has_view(stack: Stack, sale: int) -> bool:
    keys = Redis(port=stack.ports["redis"], decode_responses=True).scan_iter()
    return any(":view" in key and str(sale) in key for key in keys)


# ── sold out ──────────────────────────────────────────────────────────────────────────────────────


def test_admission_refuses_after_the_last_unit_is_sold_and_accepts_again_after_an_adjustment(stack: Stack) -> None:
    sale = stack.create_sale(1)
    first, second = Buyer(stack, "quick"), Buyer(stack, "slow")
    accepted = first.buy(sale)[1]
    outcome = first.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    stack.wait_until(
        lambda: stack.call("GET", f"/sales/{sale}")[1]["availability"] == "all_held", "all units to be held"
    )
    status, held = second.buy(sale, "while-held")
    assert status == 202, "the unit may come back"
    assert second.wait_for(held["request_id"], "SOLD_OUT")
    first.act(outcome["order_id"], "pay")
    stack.wait_until(lambda: availability(stack, sale) == "sold_out", "the sold-out mark")
    status, refused = second.buy(sale, "once-sold")
    assert (status, refused["type"]) == (409, "/problems/sold-out")
    assert refused["stock_version"] > 1
    assert first.buy(sale)[1]["request_id"] == accepted["request_id"], "a known key gets its own answer"
    stack.run_command("sale", "adjust", str(sale), "phone", "1")
    stack.wait_until(lambda: second.buy(sale, "once-sold")[0] == 202, "the mark to be lifted")


def availability(stack: Stack, sale: int) -> object:
    return stack.call("GET", f"/sales/{sale}")[1]["availability"]
