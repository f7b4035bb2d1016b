"""Several workers behind one port: one is killed mid-rush, the whole gateway is stopped, and the numbers add up."""

from __future__ import annotations

import os
import re
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from seckill.stack.child_processes import process_family
from tests.journeys.gateway_cast import SCALE, frozen
from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WORKERS = 2
BUYERS = 60
RETRY_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(
        tmp_path_factory.mktemp("workers") / "stack", *(part for scale in SCALE for part in ("--scale", scale)),
        SECKILL_GATEWAY_WORKERS=str(WORKERS),
    )  # fmt: skip
    stack.start()
    yield stack
    assert stack.stop() == 0


def worker_pids(stack: Stack) -> list[int]:
    return process_family(stack.pid_of("gateway"))[1:]


def metric(stack: Stack, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['gateway']}/metrics", timeout=15) as page:
        found = re.search(rf"^{re.escape(name)} (\S+)$", page.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_killed_worker_costs_its_open_connections_and_every_retry_gets_its_answer(stack: Stack) -> None:
    sale = stack.create_sale(BUYERS)
    before = worker_pids(stack)
    assert len(before) == WORKERS
    buyers = [Buyer(stack, f"rush-{number}") for number in range(BUYERS)]
    tickets = [buyer.ticket(sale) for buyer in buyers]
    cut: Counter[str] = Counter()
    started = threading.Barrier(9)

    def buy_until_answered(buyer: Buyer, ticket: str) -> str:
        def attempt() -> str | None:
            try:
                status, body = stack.call(
                    "POST", f"/sales/{sale}/purchases", {}, token=buyer.token, key="once", ticket=ticket
                )
            except OSError:
                cut[buyer.name] += 1
                return None
            return str(body["request_id"]) if status == 202 else None

        found: list[str] = []

        def is_answered() -> bool:
            found[:] = [answer] if (answer := attempt()) else []
            return bool(found)

        if buyers.index(buyer) < 8:
            started.wait(60)
        stack.wait_until(is_answered, f"{buyer.name} to be answered", RETRY_SECONDS_MAX)
        return found[0]

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(buy_until_answered, *pair) for pair in zip(buyers, tickets, strict=True)]
        started.wait(60)
        os.kill(before[0], signal.SIGKILL)
        requests = [answer.result() for answer in answers]
    assert len(set(requests)) == BUYERS
    stack.wait_until(lambda: len(set(worker_pids(stack)) - {before[0]}) == WORKERS, "another worker to take its place")
    assert before[1] in worker_pids(stack), "the other worker went on"
    decided = "SELECT count(*), count(DISTINCT request_id) FROM inventory_decided WHERE sale_id = %s"
    stack.wait_until(lambda: stack.query(decided, sale) == [(BUYERS, BUYERS)], "one decision for each buyer")


def test_the_numbers_of_all_workers_add_up(stack: Stack) -> None:
    sale = stack.create_sale(20)
    offered = metric(stack, "seckill_purchases_offered_total")
    for number in range(12):  # each connection reaches any worker
        assert Buyer(stack, f"counted-{number}").buy(sale)[0] == 202
    assert metric(stack, "seckill_purchases_offered_total") == offered + 12


def test_a_gateway_that_is_stopped_answers_everyone_who_waits(stack: Stack) -> None:
    sale = stack.create_sale(40)
    buyers = [Buyer(stack, f"waits-{number}") for number in range(20)]
    tickets = [buyer.ticket(sale) for buyer in buyers]

    def buy(buyer: Buyer, ticket: str) -> int:
        return stack.call("POST", f"/sales/{sale}/purchases", {}, token=buyer.token, key="k", ticket=ticket)[0]

    with ThreadPoolExecutor(20) as pool, frozen(stack, "mqcore"):
        waiting = [pool.submit(buy, buyer, ticket) for buyer, ticket in zip(buyers, tickets, strict=True)]
        stack.wait_until(lambda: metric(stack, "seckill_purchases_waiting") >= 20, "all to wait", poll_s=0.05)
        gateway = stack.pid_of("gateway")
        os.kill(gateway, signal.SIGTERM)
        assert {each.result(30) for each in waiting} == {503}, "unknown outcome, not a cut connection"
    stack.wait_until(lambda: is_ready(stack), "the gateway to be started again")
    stack.wait_until(lambda: all(buy(*pair) == 202 for pair in zip(buyers, tickets, strict=True)), "all retries")


def is_ready(stack: Stack) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['gateway']}/readyz", timeout=15) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
