"""Partitions are added and slots moved in the middle of a rush: every buyer's order is kept, and the books agree."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.journeys.stack import Stack
from tests.journeys.test_report import judged, log_of, verdicts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

UNITS, BUYERS = 20, 80


def test_adding_partitions_during_a_rush_keeps_each_buyers_order(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    rush = [*command, "--over", "40", "--greedy", "0.6", "--log", str(log_of(stack))]
    crowd = subprocess.Popen(rush, stdout=subprocess.PIPE, text=True)
    stack.wait_until(lambda: stack.query("SELECT count(*) > 5 FROM inventory_decided") == [(True,)], "the rush")
    assert "256 slots are moved" in stack.run_command("slots", "grow", "16", "--at-once", "64")
    told, _ = crowd.communicate(timeout=200)
    assert crowd.returncode == 0, told
    late = log_of(stack).with_name("late.jsonl")  # on a slow machine the rush is over before the slots have moved
    subprocess.run([*command, "--prefix", "late-", "--log", str(late)], check=True, capture_output=True, timeout=200)
    used = stack.query("SELECT count(DISTINCT partition) FROM inventory_decided WHERE partition >= 12")
    assert used[0][0] > 0, "no request used a new partition, so this proves nothing"
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
    assert "I16" in verdicts(said, "PASS")
