"""Inventory falls behind in a rush, new requests are diverted, and join again: all orders are kept, the books agree.

That somebody overtakes himself without the list of those who stay: tests/concurrency/test_streams_diverting.py.
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
    groups = json.loads(stack.say("lag", "--json"))["groups"]
    return next(int(each["records"]) for each in groups if (each["group"], each["topic"]) == ("inventory", topic))


def crowd(stack: Stack, sale: int, prefix: str) -> subprocess.Popen[str]:
    url = f"http://127.0.0.1:{stack.ports['gateway']}"
    log = log_of(stack).with_name(f"{prefix}rush.jsonl")
    command = [sys.executable, "-m", "loadtest.rush", "--url", url, "--sale", str(sale), "--buyers", str(BUYERS)]
    command += ["--prefix", prefix, "--over", "5", "--greedy", "0.6", "--log", str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_queue_that_is_diverted_in_the_middle_of_a_rush_keeps_everybodys_order(stack: Stack) -> None:
    sale = stack.create_sale(UNITS)
    stack.say("stop", "inventory")
    crowds = [crowd(stack, sale, "early-")]
    stack.wait_until(lambda: undecided(stack, "purchase.requests") >= 5, "a backlog")
    assert "users have something open and stay where they are" in stack.say("backlog", "divert")
    assert "diverted since" in stack.say("backlog", "show")
    crowds.append(crowd(stack, sale, "later-"))
    stack.wait_until(lambda: undecided(stack, DIVERTED) >= 5, "somebody who is diverted")
    stack.say("start", "inventory")
    assert "joined again" in stack.say("backlog", "rejoin")
    assert "nothing is diverted" in stack.say("backlog", "show")
    for each in crowds:
        told, _ = each.communicate(timeout=200)
        assert each.returncode == 0, told
    assert stack.query(DECIDED_THERE, DIVERTED)[0][0] >= 5, "nobody was diverted: then this proves nothing"
    code, said = judged(stack)
    assert (code, said["verdict"]) == (0, "PASS"), [
        (each["name"], each["reasons"], each["examples"][:2])
        for each in said["invariants"]
        if each["verdict"] not in ("PASS", "NOT RUN")
    ]
    assert "I16" in verdicts(said, "PASS")
    trail = [row["verb"] for row in json.loads(stack.say("audit", "--verb", "backlog", "--json"))]
    assert trail[1::2] == ["backlog divert", "backlog rejoin"], "each after its `nobody sends`"
