"""The demo as a user runs it: it passes with safeguards, and without them it fails for the right reasons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analytics.session import has_java
from seckill.lab.demo.story import MUST_FAIL
from seckill.stack.child_processes import wait_until
from seckill.stack.stack_process import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "seckill.cli", "demo", "--quick", "--data", str(folder), *words]


def demo(folder: Path, *words: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, output, report."""
    done = subprocess.run(command(folder, *words), capture_output=True, text=True, env=clean_environment(), timeout=500)
    told = done.stdout + done.stderr
    reports = list(folder.glob("*/report.json"))
    assert len(reports) == 1, told
    return done.returncode, told, json.loads(reports[0].read_text())


def verdicts(report: dict[str, Any], wanted: str) -> set[str]:
    return {each["name"] for each in report["invariants"] if each["verdict"] == wanted}


def test_a_demo_kills_inventory_in_the_middle_and_its_books_balance(tmp_path: Path) -> None:
    code, told, report = demo(tmp_path)
    assert told.splitlines()[-1] == "VERDICT: PASS", told
    assert code == 0
    assert "kill -9" in told
    assert "decides again" in told
    [page] = tmp_path.glob("*/report.html")
    assert str(page) in told
    assert not verdicts(report, "FAIL") | verdicts(report, "UNKNOWN")
    if has_java():
        assert verdicts(report, "NOT RUN") == set(), "Spark's totals agree with the books"
        assert "Statistics by Spark" in page.read_text()
    else:
        assert "no statistics: Java is not installed" in told
    assert no_process_is_left(tmp_path)


def test_without_safeguards_the_report_fails_and_names_the_requests(tmp_path: Path) -> None:
    code, told, report = demo(tmp_path, "--unsafe")
    assert told.splitlines()[-1] == "VERDICT: FAIL", told
    assert code == 1
    assert verdicts(report, "FAIL") >= set(MUST_FAIL)
    for name in MUST_FAIL:
        invariant = next(each for each in report["invariants"] if each["name"] == name)
        assert any(example["subject"] for example in invariant["examples"]), f"{name} has no example"
        assert invariant["examples"][0]["text"] in told
    assert no_process_is_left(tmp_path)


def test_a_demo_that_is_terminated_stops_its_stack(tmp_path: Path) -> None:
    running = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, text=True, env=clean_environment())
    wait_until(lambda: any(tmp_path.glob("*/run/*.pid")), "the first process of the stack")
    running.send_signal(signal.SIGTERM)
    told, _ = running.communicate(timeout=200)
    assert running.returncode == 130, told
    assert "interrupted" in told
    assert no_process_is_left(tmp_path)


def no_process_is_left(folder: Path) -> bool:
    for path in folder.glob("*/run/*.pid"):
        pid = int(path.read_text() or 0)
        if pid and Path(f"/proc/{pid}/cmdline").exists() and str(folder) in Path(f"/proc/{pid}/cmdline").read_text():
            return False
    return not any(os.path.exists(path) for path in folder.glob("*/run/stack.sock"))
