"""The benchmark of the report as a user runs it, with a small sale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.stack.stack_process import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def test_the_report_benchmark_writes_a_sale_that_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.benchmarks.report", "--requests", "1000", "--repeat", "1"]
    command += ["--keep", str(tmp_path / "kept"), "--json", str(tmp_path / "found.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert row["requests"] == 1000
    report = json.loads((tmp_path / "kept" / "1000" / "report.json").read_text())
    assert report["verdict"] == "PASS"
    verdicts = {each["name"]: (each["verdict"], each["looked_at"]) for each in report["invariants"]}
    assert verdicts.pop("I22")[0] == "NOT RUN"
    assert all(verdict == "PASS" and looked_at for verdict, looked_at in verdicts.values())
