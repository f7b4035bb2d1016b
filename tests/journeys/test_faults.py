"""A dozen of the faults, one after the other on one stack, and then one that no books can survive: each must happen and
behave as it is marked. `make night` runs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.consistency.invariants.judging import INVARIANTS
from tests.journeys.stack import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOZEN = {
    "double-click": "requests accepted more than once",
    "two-doors": "users with two requests decided",
    "gateway-killed-after-ack": "attempts without an answer",
    "broker-killed": "processes killed",
    "inventory-killed-after-redis": "inventory killed",
    "everybody-killed": "relay.orders killed",
    "redis-flushall": "times the gate was built anew",
    "postgres-restarted": "transactions open then",
    "commit-cut": "COMMITs whose answer was lost",
    "callback-five-times": "callbacks that were taken",
    "cancel-and-pay": "orders asked for both at once",
    "celery-killed": "tasks lost with the queue",
    "redis-hangs": "decided while Redis hung",
    "breaker-probe": "calls refused for another reason meanwhile",
}
"""With what proves that it happened. It takes three minutes beside other work; what takes longer is for the night."""
SPOILT = {"stock-forged": "rows forged"}


def test_a_dozen_faults_behave_as_marked_and_forged_books_are_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seckill.cli", "faults", "run", *DOZEN, *SPOILT]
    command += ["--together", str(len(DOZEN)), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=580)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    rows = {row["name"]: row for row in json.loads((tmp_path / "faults.json").read_text())["cases"]}
    for name, proof in (DOZEN | SPOILT).items():
        assert rows[name]["power"][proof] > 0, f"{name} did not happen\n{told}"
        assert rows[name]["verdict"] == ("FAIL" if name in SPOILT else "PASS"), told
    assert "I2" in rows["stock-forged"]["broken"], "on the stack that has just passed"
    [together] = {rows[name]["report"] for name in DOZEN}
    said = json.loads((tmp_path / together).with_suffix(".json").read_text())
    verdicts = {each["name"]: each["verdict"] for each in said["invariants"]}
    assert verdicts == {each.name: "NOT RUN" if each.name == "I22" else "PASS" for each in INVARIANTS}
    assert not list(tmp_path.glob("stack-*")), "nothing is kept of what behaved"
