"""The gateway in a running stack: what it promises while others stall, stop, forget, or have nothing left."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from kafka import KafkaConsumer
from redis import Redis

from gateway.sales import FRESH_S
from seckill.stack import ready, servers
from seckill.stack.broker import free_port
from tests.journeys.stack import Buyer, Stack
from tests.services import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LEFT_OUT = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep")
ONE = ("inventory", "orders")
SCALE = [f"{name}=0" for name in LEFT_OUT] + [f"{name}=1" for name in ONE]
STOPPED_S = 60.0
DEADLINE_S = 100
POOL = 16  # connections to the database (seckill/rsgi.py)


@pytest.fixture(scope="module")
def gate_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another server than the stack's own Redis, which then is for admission and Celery."""
    folder, port = tmp_path_factory.mktemp("gate"), free_port()
    url = f"redis://127.0.0.1:{port}/0"
    with running(servers.redis_command(folder, port), folder / "redis.log", ready.redis(url)):
        yield url


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, gate_redis: str) -> Iterator[Stack]:
    stack = Stack(
        tmp_path_factory.mktemp("stack"), *(part for scale in SCALE for part in ("--scale", scale)),
        SECKILL_PURCHASE_DEADLINE_S=str(DEADLINE_S), SECKILL_EXPECTED_PACE="1", SECKILL_GATE_REDIS_URL=gate_redis,
    )  # fmt: skip
    stack.start()
    yield stack
    assert stack.stop() == 0


@contextmanager
def stopped(stack: Stack, name: str) -> Iterator[None]:
    """SIGSTOP: its connections stay, and nothing answers."""
    pid = stack.pid_of(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def units(stack: Stack, sale: int) -> tuple[int, int, int]:
    [row] = stack.query("SELECT available, reserved, sold FROM inventory_stock WHERE sale_id = %s", sale)
    return row[0], row[1], row[2]


def buy_and_pay(stack: Stack, buyer: Buyer, sale: int) -> dict[str, Any]:
    accepted = buyer.buy(sale)[1]
    outcome = buyer.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    assert buyer.act(outcome["order_id"], "pay")[0] == 202
    buyer.wait_for(accepted["request_id"], "PAID")
    return accepted


# ── two Redis servers ────────────────────────────────────────────────────────────────────────────


def test_admission_and_gate_have_each_a_redis_of_their_own(stack: Stack, gate_redis: str) -> None:
    sale = stack.create_sale(1)
    buy_and_pay(stack, Buyer(stack, "ann"), sale)
    ours, theirs = Redis(port=stack.ports["redis"], decode_responses=True), Redis.from_url(gate_redis)
    assert stack.call("GET", f"/sales/{sale}")[1]["state"] == "open"
    assert sale in [each["id"] for each in stack.call("GET", "/sales")[1]["sales"]]
    assert any(f"sale:{{{sale}}}:gate:".encode() in key for key in theirs.scan_iter())
    assert not any(":gate:" in key for key in ours.scan_iter())
    assert not any(b"admission" in key or b":view" in key for key in theirs.scan_iter())


# ── the queue is too long ────────────────────────────────────────────────────────────────────────


def test_a_queue_longer_than_the_deadline_takes_nobody_until_it_is_worked_off(stack: Stack) -> None:
    """At the pace that inventory is expected to have, one a second; what it really has is seen once it works."""
    sale = stack.create_sale(500)
    stack.say("stop", "inventory")

    def comes(number: int) -> tuple[Buyer, int, dict[str, Any]]:
        buyer = Buyer(stack, f"crowd-{number}")
        return buyer, *buyer.buy(sale)

    with ThreadPoolExecutor(8) as pool:
        crowd = list(pool.map(comes, range(DEADLINE_S + 10)))
    inside = [(buyer, said["request_id"]) for buyer, status, said in crowd if status == 202]

    def asks(newcomer: Buyer, ticket: str) -> tuple[int, Message, dict[str, Any]]:
        address = f"/sales/{sale}/purchases"
        return stack.answer("POST", address, {}, token=newcomer.token, key="k", ticket=ticket)

    def refused() -> tuple[Buyer, str, Message, dict[str, Any]] | None:
        """One request a second passes the guard; this buyer's did not."""
        newcomer = Buyer(stack, f"newcomer-{uuid4().hex[:8]}")
        ticket = newcomer.ticket(sale)
        status, headers, said = asks(newcomer, ticket)
        return (newcomer, ticket, headers, said) if status == 503 else None

    try:
        stack.wait_until(lambda: Buyer(stack, "one-more").buy(sale, str(uuid4()))[0] == 503, "the guard to see it")
        newcomer, ticket, headers, said = next(filter(None, (refused() for _ in range(50))))
        assert said["type"] == "/problems/queue-too-long"
        assert int(headers["Retry-After"]) >= 1 and said["wait_ms"] > DEADLINE_S * 1000
        first, request = inside[0]
        assert first.buy(sale)[1]["request_id"] == request, "whoever is inside is told again that he is"
        assert first.look(request)["state"] == "QUEUED"
        assert stack.call("GET", f"/sales/{sale}")[0] == stack.call("GET", "/orders", token=first.token)[0] == 200
    finally:
        stack.say("start", "inventory")
    stack.wait_until(lambda: asks(newcomer, ticket)[0] == 202, "room for the newcomer")
    decided = "SELECT count(*), count(DISTINCT request_id) FROM inventory_decided WHERE decision = 'RESERVED'"
    one = "SELECT count(*) FROM inventory_decided WHERE user_id = %s"
    stack.wait_until(lambda: stack.query(one, newcomer.name) == [(1,)], "the newcomer's turn")
    crowds = decided + " AND sale_id = %s AND user_id LIKE 'crowd-%%'"
    stack.wait_until(lambda: stack.query(crowds, sale)[0][0] >= len(inside), "the turn of all who came before")
    assert stack.query(crowds, sale) == [(len(inside), len(inside))]


# ── the database has no connection left ──────────────────────────────────────────────────────────


def test_when_all_connections_wait_orders_are_503_and_the_rest_goes_on(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer, other = Buyer(stack, "waiting"), Buyer(stack, "meanwhile")
    buyer.wait_for(buyer.buy(sale)[1]["request_id"], "AWAITING_PAYMENT")

    def looks(_: int) -> tuple[int, Message, dict[str, Any]]:
        return stack.answer("GET", "/orders", token=buyer.token)

    with ThreadPoolExecutor(2 * POOL) as pool:
        with psycopg.connect(stack.database) as locker:
            locker.execute("LOCK TABLE orders_order")
            asked = [pool.submit(looks, number) for number in range(2 * POOL)]
            stack.wait_until(lambda: sum(each.done() for each in asked) >= POOL, "those without a connection")
            refused = [each.result() for each in asked if each.done()]
            status, headers, said = refused[0]
            assert (status, said["type"], int(headers["Retry-After"])) == (503, "/problems/database-unavailable", 2)
            assert stack.call("GET", f"/sales/{sale}")[0] == 200
            assert other.buy(sale)[0] == 202
            for path in ("/", "/livez"):
                page = f"http://127.0.0.1:{stack.ports['gateway']}{path}"
                assert urllib.request.urlopen(page, timeout=15).status == 200
            assert not all(each.done() for each in asked), "some have waited all the time"
        told = Counter(each.result()[0] for each in asked)
    assert told == {503: len(refused), 200: 2 * POOL - len(refused)}
    assert looks(0)[0] == 200


# ── the broker stalls ────────────────────────────────────────────────────────────────────────────


def test_a_stalled_broker_costs_purchases_only_and_a_retry_finds_out(stack: Stack) -> None:
    sale = stack.create_sale(100)
    crowd = [Buyer(stack, f"stall-{number}") for number in range(80)]
    tickets = [buyer.ticket(sale) for buyer in crowd]

    def buy(buyer: Buyer, ticket: str) -> tuple[int, dict[str, Any]]:
        return stack.call("POST", f"/sales/{sale}/purchases", {}, token=buyer.token, key="k", ticket=ticket)

    with ThreadPoolExecutor(80) as pool, stopped(stack, "mqcore"):
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


# ── the queue ────────────────────────────────────────────────────────────────────────────────────


def test_whoever_waits_is_told_his_place_without_the_projection(stack: Stack) -> None:
    sale = stack.create_sale(100)
    stack.say("stop", "inventory")
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
        assert stack.call("GET", address, token=crowd[0].token)[0] == 404, "it is not his"
        assert stack.call("GET", address + "x", token=last.token)[1]["state"] == "QUEUED", "Redis knows it, too"
    finally:
        stack.say("start", "inventory")
    for buyer, place in zip(crowd, places, strict=True):
        buyer.wait_for(place["request_id"], "AWAITING_PAYMENT")


def test_what_redis_forgets_is_told_by_the_projection(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "remembered")
    accepted = buy_and_pay(stack, buyer, sale)
    Redis(port=stack.ports["redis"]).flushall()
    assert buyer.look(accepted["request_id"])["state"] == "PAID"
    time.sleep(FRESH_S)  # until then it is shown as it was
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[0] == 200, "the sale to be shown again")
    status, again = buyer.buy(sale)
    assert (status, again["request_id"]) == (202, accepted["request_id"])
    address = again["status_url"].removeprefix("/api/v1")
    assert stack.call("GET", address, token=buyer.token)[1]["state"] == "PAID", "not queued anew"


# ── the mark ─────────────────────────────────────────────────────────────────────────────────────


def test_after_the_last_unit_is_sold_the_door_says_so_and_an_adjustment_opens_it(stack: Stack) -> None:
    sale = stack.create_sale(1)
    first, second = Buyer(stack, "quick"), Buyer(stack, "slow")
    accepted = first.buy(sale)[1]
    outcome = first.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[1]["availability"] == "all_held", "all to be held")
    status, held = second.buy(sale, "while-held")
    assert status == 202, "it may come back"
    assert second.wait_for(held["request_id"], "SOLD_OUT")
    first.act(outcome["order_id"], "pay")
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[1]["availability"] == "sold_out", "the mark")
    status, refused = second.buy(sale, "once-sold")
    assert (status, refused["type"]) == (409, "/problems/sold-out")
    assert refused["stock_version"] > 1
    assert first.buy(sale)[1]["request_id"] == accepted["request_id"], "a known key gets its own answer"
    stack.manage("sale", "adjust", str(sale), "phone", "1")
    stack.wait_until(lambda: second.buy(sale, "once-sold")[0] == 202, "the mark to be lifted")


# ── events ───────────────────────────────────────────────────────────────────────────────────────


class Ear:
    """An EventSource: the events of one address, with what they are about."""

    def __init__(self, url: str, last: str = "") -> None:
        request = urllib.request.Request(url, headers={"Last-Event-ID": last} if last else {})
        self._answer = urllib.request.urlopen(request, timeout=STOPPED_S)
        self.status = self._answer.status
        self.last = last

    def until(self, state: str) -> list[str]:
        """The states that were told, up to this one."""
        states: list[str] = []
        while state not in states:
            line = self._answer.readline().decode()
            assert line, f"the stream has ended after {states}"
            if line.startswith("id: "):
                self.last = line[4:].strip()
            if line.startswith("data: "):
                states.append(json.loads(line[6:])["state"])
        return states

    def rest(self) -> bytes:
        content: bytes = self._answer.read()
        return content


def test_a_stream_tells_each_step_and_goes_on_where_it_was_cut(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "listener")
    stack.say("stop", "inventory")
    accepted = buyer.buy(sale)[1]
    ear = Ear(accepted["events_url"])
    assert ear.until("QUEUED")
    stack.say("start", "inventory")
    assert ear.until("AWAITING_PAYMENT")[-1] == "AWAITING_PAYMENT"
    again = Ear(accepted["events_url"], ear.last)
    outcome = buyer.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    assert buyer.act(outcome["order_id"], "pay")[0] == 202
    assert again.until("PAID") == ["PAID"], "what he had seen is not told again"
    assert ear.until("PAID") == ["PAID"]


def test_a_stream_ends_with_the_final_outcome_and_tells_who_comes_back_to_stay_away(stack: Stack) -> None:
    sale = stack.create_sale(1)
    Buyer(stack, "winner").buy(sale)
    loser = Buyer(stack, "loser")
    accepted = loser.buy(sale)[1]
    ear = Ear(accepted["events_url"])
    assert ear.until("SOLD_OUT")
    assert b"data" not in ear.rest()
    assert Ear(accepted["events_url"], ear.last).status == 204


def test_a_stream_needs_the_signed_place_or_its_owners_token(stack: Stack) -> None:
    sale = stack.create_sale(5)
    owner, stranger = Buyer(stack, "hearer"), Buyer(stack, "eavesdropper")
    accepted = owner.buy(sale)[1]
    owner.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
    bare = accepted["events_url"].partition("?")[0]
    for headers, status in (
        ({}, 401),
        ({"Authorization": f"Bearer {stranger.token}"}, 404),
        ({"Authorization": f"Bearer {owner.token}"}, 200),
    ):
        try:
            got = urllib.request.urlopen(urllib.request.Request(bare, headers=headers), timeout=15).status
        except urllib.error.HTTPError as error:
            got = error.code
            assert json.load(error)["status"] == status
        assert got == status


def test_a_stream_outlives_a_redis_that_is_killed(stack: Stack) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "patient")
    accepted = buyer.buy(sale)[1]
    ear = Ear(accepted["events_url"])
    ear.until("AWAITING_PAYMENT")
    stack.say("kill", "redis")
    stack.wait_until(lambda: buyer.look(accepted["request_id"]).get("state") == "AWAITING_PAYMENT", "an answer")
    order = buyer.look(accepted["request_id"])["order_id"]
    stack.wait_until(lambda: buyer.act(order, "pay")[0] in (202, 409), "the payment to begin")
    assert ear.until("PAID")[-1] == "PAID"


# ── traces ───────────────────────────────────────────────────────────────────────────────────────


def test_the_callers_trace_goes_all_the_way_to_the_order(stack: Stack) -> None:
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


# ── its clerk ────────────────────────────────────────────────────────────────────────────────────


def test_a_clerk_that_is_killed_takes_his_gateway_along_and_the_retry_is_the_same_purchase(stack: Stack) -> None:
    sale, ann = stack.create_sale(5), Buyer(stack, "ann-and-the-clerk")
    accepted = ann.buy(sale, key="once")[1]
    clerk = clerk_of(stack.pid_of("gateway"))
    os.kill(clerk, signal.SIGKILL)
    stack.wait_until(
        lambda: is_ready(stack) and clerk_of(stack.pid_of("gateway")) not in (0, clerk), "both to be back", STOPPED_S
    )
    status, again = ann.buy(sale, key="once")
    assert (status, again["request_id"]) == (202, accepted["request_id"])
    ann.wait_for(again["request_id"], "AWAITING_PAYMENT")
    assert units(stack, sale) == (4, 1, 0), "it may stand in the queue twice, and is decided once"


def is_ready(stack: Stack) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['gateway']}/readyz", timeout=15) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def clerk_of(pid: int) -> int:
    """Below the server's own process and its worker."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            if b"gateway.clerk" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
            if below := clerk_of(child):
                return below
    return 0
