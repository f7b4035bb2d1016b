"""A rush with killed processes, and the report on it: PASS for a correct run, and not for a tampered one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seckill.stack.child_processes import free_ports
from seckill.stack.stack_process import clean_environment
from tests.journeys.stack import Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

UNITS, BUYERS = 20, 80


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack after a rush during which processes were killed."""
    stack = Stack(tmp_path_factory.mktemp("stack"))
    stack.start()
    sale = stack.create_sale(UNITS)
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    command += ["--over", "6", "--cancel", "0.3", "--pay", "0.6", "--greedy", "0.4", "--log", str(log_of(stack))]
    crowd = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for name in ("inventory.1", "orders.1", "relay.inventory"):
        stack.run_command("kill", name)
    told, _ = crowd.communicate(timeout=150)
    assert crowd.returncode == 0, told
    yield stack
    assert stack.stop() == 0


def log_of(stack: Stack) -> Path:
    return stack.folder / "evidence" / "rush.jsonl"


def report(stack: Stack, *words: str) -> tuple[int, str]:
    """`seckill report` as a user runs it, with only the folder of the stack."""
    command = [sys.executable, "-m", "seckill.cli", "report", *words, "--data", str(stack.folder)]
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "KAFKA_"))}
    done = subprocess.run(command, capture_output=True, text=True, env=bare, timeout=150)
    return done.returncode, done.stdout + done.stderr


def judged(stack: Stack, *words: str) -> tuple[int, dict[str, Any]]:
    path = stack.folder / "report.json"
    code, told = report(stack, "--json", str(path), *words)
    assert path.exists(), told
    said: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return code, said


def verdicts(said: dict[str, Any], *wanted: str) -> set[str]:
    return {each["name"] for each in said["invariants"] if each["verdict"] in wanted}


def test_a_rush_with_crashes_passes_the_report(stack: Stack) -> None:
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
    assert verdicts(said, "NOT RUN") == {"I22"}
    observed = {each["what"]: each["is_planned"] for each in said["observed"]}
    for name in ("inventory.1", "orders.1", "relay.inventory"):
        assert observed[f"{name} died (signal 9)"] is False, "killed by hand, so it is listed as unplanned"


def test_every_corruption_of_this_run_is_detected(stack: Stack) -> None:
    page = stack.folder / "kills.md"
    code, told = report(stack, "selftest", "--write", str(page))
    assert code == 0, told
    assert " 0 undetected, 0 not possible" in told
    assert (
        "| I25 | half the price is charged at every stage from the decision to the provider | FAIL |"
        in page.read_text()
    )


def test_the_timeline_of_a_buyer_can_be_traced(stack: Stack) -> None:
    [[user, order]] = stack.query("SELECT user_id, id::text FROM orders_order WHERE state = 'PAID' LIMIT 1")
    for subject in (user, order):
        code, told = report(stack, "trace", subject)
        assert code == 0
        assert "PENDING_PAYMENT → PAID" in told
        assert "provider" in told
    assert report(stack, "trace", "nobody")[0] == 3


def test_units_added_by_hand_are_detected(stack: Stack) -> None:
    change(stack, "UPDATE inventory_stock SET available = available + 50")
    try:
        code, said = judged(stack)
        assert code == 1
        assert "I2" in verdicts(said, "FAIL")
    finally:
        change(stack, "UPDATE inventory_stock SET available = available - 50")


def test_a_truncated_crowd_log_makes_the_verdict_unknown(stack: Stack) -> None:
    whole = log_of(stack).read_bytes()
    log_of(stack).write_bytes(whole[: len(whole) // 2])
    try:
        code, said = judged(stack)
        assert code == 2
        assert verdicts(said, "FAIL") == set()
        assert {"I7", "I8", "I24"} <= verdicts(said, "UNKNOWN")
    finally:
        log_of(stack).write_bytes(whole)


def test_without_a_manifest_the_verdict_is_unknown(stack: Stack) -> None:
    code, said = judged(stack, "--evidence", str(stack.folder / "nowhere"))
    assert code == 2
    assert {"I7", "I22"} <= verdicts(said, "UNKNOWN")


def test_live_residuals_show_a_violation_at_once(stack: Stack) -> None:
    [port] = free_ports(1)
    with live(stack, "--metrics-port", str(port)) as watching:
        assert "all residuals are 0" in line_of(watching)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            assert b"seckill_invariants_broken 0" in page.read()
        change(stack, "UPDATE inventory_stock SET available = available + 50")
        try:
            assert "I2 units that the ledger does not explain: 100 (broken)" in line_of(watching)
        finally:
            change(stack, "UPDATE inventory_stock SET available = available - 50")
        assert "all residuals are 0" in line_of(watching)
        for spoil, mend, said in LIES:
            change(stack, spoil)
            try:
                assert f"{said}: 1 (broken)" in line_of(watching)
            finally:
                change(stack, mend)
            assert "all residuals are 0" in line_of(watching)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 1, "a residual was broken before"
    with live(stack) as watching:
        assert "all residuals are 0" in line_of(watching)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0


_ONE = "(SELECT id FROM orders_order WHERE state = 'PAID' ORDER BY id LIMIT 1)"
_MESSAGE = "(SELECT min(id) FROM notifications_delivery)"
_LOSER = (
    "(SELECT request_id FROM inventory_decided WHERE decision IN ('SOLD_OUT', 'CLOSED') ORDER BY request_id LIMIT 1)"
)
LIES = (
    (
        f"UPDATE gateway_outcome SET user_id = 'x' || user_id WHERE order_id = {_ONE}",
        f"UPDATE gateway_outcome SET user_id = substr(user_id, 2) WHERE order_id = {_ONE}",
        "I27 purchases assigned to another buyer",
    ),
    (
        f"UPDATE gateway_outcome SET may_buy_again = true WHERE order_id = {_ONE}",
        f"UPDATE gateway_outcome SET may_buy_again = false WHERE order_id = {_ONE}",
        "I26 buyers with a wrong right to buy again",
    ),
    (
        f"UPDATE notifications_delivery SET user_id = 'x' || user_id WHERE id = {_MESSAGE}",
        f"UPDATE notifications_delivery SET user_id = substr(user_id, 2) WHERE id = {_MESSAGE}",
        "I30 messages to another buyer",
    ),
    (
        f"UPDATE inventory_decided SET decision = 'CLOSED' WHERE request_id = {_LOSER}",
        f"UPDATE inventory_decided SET decision = 'SOLD_OUT' WHERE request_id = {_LOSER}",
        "I28 refusals with a false reason",
    ),
)
"""A change to the tables, how to undo it, and the residual that shows it."""


def live(stack: Stack, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "seckill.cli", "report", "--data", str(stack.folder), "--live", "--every", "0.2"]
    return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=clean_environment())


def line_of(watching: subprocess.Popen[str]) -> str:
    assert watching.stdout is not None
    return watching.stdout.readline()


def change(stack: Stack, statement: str) -> None:
    with psycopg.connect(stack.database) as connection:
        connection.execute(statement)


@pytest.mark.needs("java")
def test_spark_statistics_match_and_a_wrong_count_is_detected(stack: Stack) -> None:
    from analytics import spark_jars

    spark_jars.fetch_jars(print)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "KAFKA_"))}
    command = [sys.executable, "-m", "seckill.cli", "stats", "replay", "--data", str(stack.folder)]
    replayed = subprocess.run(command, capture_output=True, text=True, env=bare, timeout=150)
    assert replayed.returncode == 0, replayed.stderr
    code, said = judged(stack, "--statistics")
    assert (code, said["verdict"]) == (0, "PASS")
    assert "I22" in verdicts(said, "PASS")
    change(stack, "UPDATE analytics_total SET events = events + 1 WHERE kind = 'RESERVED'")
    code, said = judged(stack, "--statistics")
    assert code == 1
    assert verdicts(said, "FAIL") == {"I22"}
