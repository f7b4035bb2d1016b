"""The benchmark of the report, as a user runs it, on a sale that is as small as it can be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.stack import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def test_a_whole_sale_is_written_and_reported_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.report", "--requests", "1000", "--repeat", "1"]
    command += ["--keep", str(tmp_path / "kept"), "--json", str(tmp_path / "found.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert row["requests"] == 1000
    report = json.loads((tmp_path / "kept" / "1000" / "report.json").read_text())
    assert report["verdict"] == "PASS"
    verdicts = {each["name"]: (each["verdict"], each["looked_at"]) for each in report["invariants"]}
    assert verdicts.pop("I22")[0] == "NOT RUN"
    assert all(verdict == "PASS" and looked_at for verdict, looked_at in verdicts.values())
