"""Inventory falls behind in a rush, and new requests are diverted and rejoin: the order is kept, the books balance.

The control, where the order breaks without pinned users: tests/concurrency/test_messaging_diversion_load.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.journeys.stack import Stack
from tests.journeys.test_report import judged, log_of, verdicts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

UNITS, BUYERS = 20, 40
DIVERTED = "purchase.requests.diverted"
DECIDED_THERE = (
    "SELECT count(*) FROM inventory_decided JOIN (SELECT DISTINCT topic, topic_id FROM streams_offset) AS log"
    " USING (topic_id) WHERE topic = %s"
)


def undecided(stack: Stack, topic: str) -> int:
    groups = json.loads(stack.run_command("lag", "--json"))["groups"]
    return next(int(each["records"]) for each in groups if (each["group"], each["topic"]) == ("inventory", topic))


def crowd(stack: Stack, sale: int, prefix: str) -> subprocess.Popen[str]:
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    log = log_of(stack).with_name(f"{prefix}rush.jsonl")
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    command += ["--prefix", prefix, "--over", "5", "--greedy", "0.6", "--log", str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_diverting_the_queue_during_a_rush_keeps_each_buyers_order(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    stack.run_command("stop", "inventory")
    crowds = [crowd(stack, sale, "early-")]
    stack.wait_until(lambda: undecided(stack, "purchase.requests") >= 5, "a backlog")
    assert "users with requests in the old queue stay there" in stack.run_command("backlog", "divert")
    assert "diverted since" in stack.run_command("backlog", "show")
    crowds.append(crowd(stack, sale, "later-"))
    stack.wait_until(lambda: undecided(stack, DIVERTED) >= 5, "a buyer who is diverted")
    stack.run_command("start", "inventory")
    assert "joined again" in stack.run_command("backlog", "rejoin")
    assert "nothing is diverted" in stack.run_command("backlog", "show")
    for each in crowds:
        told, _ = each.communicate(timeout=200)
        assert each.returncode == 0, told
    assert stack.query(DECIDED_THERE, DIVERTED)[0][0] >= 5, "no buyer was diverted, so this proves nothing"
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
    assert "I16" in verdicts(said, "PASS")
    trail = [row["verb"] for row in json.loads(stack.run_command("audit", "--verb", "backlog", "--json"))]
    assert trail[1::2] == ["backlog divert", "backlog rejoin"], "each after its `producers pause`"
