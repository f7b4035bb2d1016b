"""A rolling upgrade under load: a stack of an earlier commit sells while each of its processes is replaced by this
commit's, then `seckill up` continues in its folder. Both versions read each other's rows and messages.

It takes minutes, so it runs only on request: `TEST_NIGHT=1 pytest tests/journeys/test_upgrade.py`, or `make night`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.api.problems import PROBLEMS
from seckill.stack.child_processes import free_ports
from seckill.stack.stack_process import StackProcess
from tests.journeys.stack import Stack
from tests.journeys.upgrade import Crowd, Upgrade, missing_history, old_stack

BEFORE = "782ad63"
"""The last commit before the gateway that sends on its event loop and serves event streams itself."""
ORDER = (
    "mqcore", "sandbox",
    "celery", "notify.sms", "notify.email", "notify.push", "notify.sweep",
    "gateway.outcomes", "inventory.settlement", "orders", "orders.sweep", "relay.orders",
    "inventory", "inventory.sweep", "relay.inventory",
)  # fmt: skip
"""Readers before writers, as docs/running.md says; gateways come after all of these."""
KEPT = {"postgres", "redis"}
SETTINGS: dict[str, Any] = {"SECKILL_PAYMENT_TTL_S": "30"}
SCHEMA_FAULT = re.compile(r"UndefinedColumn|UndefinedTable|NotNullViolation|ProgrammingError|Unreadable|BadEnvironment")
UNITS = 100_000


@pytest.fixture(autouse=True)
def _no_addresses_of_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SECKILL_", "KAFKA_")):
            monkeypatch.delenv(name)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def counted(stack: StackProcess, statement: str) -> int:
    with psycopg.connect(stack.layout.addresses()["SECKILL_DATABASE_URL"]) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


def decided(stack: StackProcess) -> int:
    return counted(stack, "SELECT count(*) FROM inventory_decided")


def wait_for_more_decisions(stack: StackProcess, what: str) -> None:
    before = decided(stack)
    stack.wait_until(lambda: decided(stack) > before, what)


def judged(stack: StackProcess) -> dict[str, str]:
    """The verdicts of this commit's report."""
    done = stack.seckill("report", "--patience", "180", "--json", "-")
    assert done.stdout, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return {each["name"]: each["verdict"] for each in said["invariants"]} | {"all": said["verdict"]}


def undocumented(answers: dict[tuple[int, str], int]) -> dict[tuple[int, str], int]:
    """Answers from 500 up that the API does not announce as a 503 after which the same request may be sent again."""
    allowed = {f"/problems/{kind}" for kind, problem in PROBLEMS.items() if problem.status == 503 and problem.retry}
    return {
        (status, kind): count
        for (status, kind), count in answers.items()
        if status >= 500 and not (status == 503 and kind in allowed)
    }


def schema_faults(folder: Path) -> list[str]:
    return [
        f"{log.name}: {line[:300]}"
        for log in sorted((folder / "logs").glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if SCHEMA_FAULT.search(line)
    ]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not os.environ.get("TEST_NIGHT"), reason="takes minutes: set TEST_NIGHT=1")
def test_each_process_is_replaced_during_a_rush_and_the_books_balance(tmp_path: Path, opened: ExitStack) -> None:
    if missing := missing_history(BEFORE):
        pytest.skip(missing)
    old = opened.enter_context(old_stack(BEFORE, tmp_path, **SETTINGS))
    assert "live" in old.processes(), "the old code had this process"
    upgrade = Upgrade(old, **SETTINGS)
    opened.callback(upgrade.stop)
    sale = old.create_sale(UNITS)
    with Crowd(old, sale, old.gateway, "first") as first:
        old.wait_until(lambda: decided(old) > 0, "the old processes to decide")
        upgrade.migrate()
        for name in ORDER:
            upgrade.replace(name)
            wait_for_more_decisions(old, f"decisions after {name} was replaced")
        second = opened.enter_context(Crowd(old, sale, upgrade.add_gateway(free_ports(1)[0]), "second"))
        old.wait_until(lambda: second.rushes, "a rush at the new gateway beside the old one")
        upgrade.replace("gateway")
        old.send("stop", name="live")
        rushes = first.rushes
        old.wait_until(lambda: first.rushes > rushes + 1, "a whole rush at the new gateway in the place of the old one")
    second.end()
    left = {name for name, each in old.processes().items() if each["pid"]}
    assert left == KEPT
    for crowd in (first, second):
        crowd.check()
        answers = crowd.answers()
        assert undocumented(answers) == {}, answers
        assert answers[202, ""] > 0, answers
    assert schema_faults(old.folder) == []
    assert counted(old, "SELECT count(*) FROM streams_dead_letter") == 0
    verdicts = judged(old)
    assert verdicts["all"] == "PASS", verdicts

    upgrade.stop()
    assert old.stop() == 0
    new = Stack(old.folder, ports=old.layout.ports.all(), on_kafka=False, **SETTINGS)
    opened.callback(new.stop)
    new.start()
    with Crowd(new, sale, new.gateway, "third") as third:
        new.wait_until(lambda: third.rushes, "a rush at the stack of this commit, in the old folder")
    assert third.answers()[202, ""] > 0
    verdicts = judged(new)
    assert verdicts["all"] == "PASS", verdicts


def test_an_answer_that_the_api_does_not_announce_is_found() -> None:
    answers = {(202, ""): 9, (0, "refused"): 2, (503, "/problems/queue-unknown"): 1}
    assert undocumented(answers) == {}
    strange = {(500, "/problems/internal"): 1, (503, ""): 1, (502, ""): 1}
    assert undocumented(answers | strange) == strange


def test_a_repository_without_that_commit_skips_with_a_reason() -> None:
    assert "does not reach back" in missing_history("0" * 40)
