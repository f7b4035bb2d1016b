"""The same sale on a real Apache Kafka: a rush sells out and pays, inventory is killed meanwhile, the books agree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.peer import ApacheKafka
from tests.journeys.stack import Stack
from tests.journeys.test_report import judged, log_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.needs("java", "mvn"),
]

UNITS, BUYERS = 12, 60


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    broker = ApacheKafka(tmp_path / "kafka", {"auto.create.topics.enable": "false"})
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def stack(tmp_path: Path, kafka: ApacheKafka) -> Iterator[Stack]:
    stack = Stack(tmp_path / "stack", "--kafka", kafka.address)
    try:
        stack.start()
        yield stack
    finally:
        assert stack.stop() == 0


def test_a_rush_on_apache_kafka_sells_out_and_its_books_agree_though_inventory_was_killed(stack: Stack) -> None:
    assert "mqcore" not in stack.say("status"), "the broker is somebody else's"
    sale = stack.create_sale(UNITS)
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    command += ["--over", "8", "--greedy", "0.3", "--cancel", "0", "--pay", "1", "--log", str(log_of(stack))]
    crowd = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stack.wait_until(lambda: stack.query("SELECT count(*) > 5 FROM inventory_decided") == [(True,)], "the rush")
    stack.say("kill", "inventory")
    told, _ = crowd.communicate(timeout=200)
    assert crowd.returncode == 0, told
    assert stack.query("SELECT available, reserved + sold FROM inventory_stock WHERE sold > 0") == [(0, UNITS)]
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
