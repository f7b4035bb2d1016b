"""The sale on a real Apache Kafka: a rush sells out while inventory is killed, and the books balance.

The cases of tests/journeys/test_purchase.py run here as well. With `TEST_BROKER=kafka` all journeys use Apache Kafka.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conformance.peer import IS_KAFKA
from tests.journeys.stack import Stack
from tests.journeys.test_purchase import (
    test_a_cancelled_order_returns_its_unit_and_its_buyer_may_buy_again,
    test_a_sale_sells_every_unit_once_and_notifies_every_buyer,
    test_a_second_purchase_of_the_same_user_is_refused_as_a_duplicate,
    test_consumers_killed_during_a_sale_lose_and_double_nothing,
    test_the_same_key_returns_the_same_request_and_refuses_another_body,
)
from tests.journeys.test_report import judged, log_of

__all__ = [
    "test_a_cancelled_order_returns_its_unit_and_its_buyer_may_buy_again",
    "test_a_sale_sells_every_unit_once_and_notifies_every_buyer",
    "test_a_second_purchase_of_the_same_user_is_refused_as_a_duplicate",
    "test_consumers_killed_during_a_sale_lose_and_double_nothing",
    "test_the_same_key_returns_the_same_request_and_refuses_another_body",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.needs("java", "mvn"),
    pytest.mark.skipif(IS_KAFKA, reason="the whole test run already uses it"),
]

UNITS, BUYERS = 12, 60


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), on_kafka=True)
    stack.start()
    yield stack
    assert stack.stop() == 0


def test_a_rush_on_apache_kafka_sells_out_and_the_books_balance_after_inventory_was_killed(stack: Stack) -> None:
    assert "mqcore" not in stack.run_command("status"), "the broker does not belong to the stack"
    sale = stack.create_sale(UNITS)
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    command += ["--over", "8", "--greedy", "0.3", "--cancel", "0", "--pay", "1", "--log", str(log_of(stack))]
    crowd = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    decided = "SELECT count(*) > 5 FROM inventory_decided WHERE sale_id = %s"
    stack.wait_until(lambda: stack.query(decided, sale) == [(True,)], "the rush")
    stack.run_command("kill", "inventory")
    told, _ = crowd.communicate(timeout=200)
    assert crowd.returncode == 0, told
    sold_out = "SELECT available, reserved + sold FROM inventory_stock WHERE sale_id = %s"
    assert stack.query(sold_out, sale) == [(0, UNITS)]
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
