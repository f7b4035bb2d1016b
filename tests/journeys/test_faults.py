"""A dozen faults in turn on one stack, and then one that corrupts the books: each must happen and behave as expected.
`make night` runs all cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.report.invariants.registry import INVARIANTS
from seckill.stack.stack_process import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOZEN = {
    "double-click": "requests accepted more than once",
    "two-doors": "users with two requests decided",
    "gateway-killed-after-ack": "attempts without an answer",
    "broker-killed": "processes killed",
    "inventory-killed-after-redis": "inventory killed",
    "everybody-killed": "relay.orders killed",
    "redis-flushall": "times the gate was rebuilt",
    "postgres-restarted": "transactions open then",
    "commit-cut": "COMMITs whose response was lost",
    "callback-five-times": "callbacks accepted",
    "cancel-and-pay": "orders cancelled and paid at once",
    "celery-killed": "tasks lost with the queue",
    "redis-hangs": "decided while Redis hung",
    "breaker-probe": "bad requests refused meanwhile",
}
"""Each case with its proof. This takes three minutes on a busy machine; longer cases run only in `make night`."""
FORGED = {"stock-forged": "rows forged"}


def test_a_dozen_faults_behave_as_expected_and_the_report_finds_forged_books(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seckill.cli", "faults", "run", *DOZEN, *FORGED]
    command += ["--together", str(len(DOZEN)), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=580)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    rows = {row["name"]: row for row in json.loads((tmp_path / "faults.json").read_text())["cases"]}
    for name, proof in (DOZEN | FORGED).items():
        assert rows[name]["power"][proof] > 0, f"{name} did not happen\n{told}"
        assert rows[name]["verdict"] == ("FAIL" if name in FORGED else "PASS"), told
    assert "I2" in rows["stock-forged"]["broken"], "on the same stack that has just passed"
    [together] = {rows[name]["report"] for name in DOZEN}
    said = json.loads((tmp_path / together).with_suffix(".json").read_text())
    verdicts = {each["name"]: each["verdict"] for each in said["invariants"]}
    assert verdicts == {each.name: "NOT RUN" if each.name == "I22" else "PASS" for each in INVARIANTS}
    assert not list(tmp_path.glob("stack-*")), "the data of cases that behaved is deleted"
