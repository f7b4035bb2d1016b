"""The report lists what disturbed a run, and whether it was planned."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from seckill.report import terminal
from seckill.report.disturbances import find_disturbances, find_unplanned
from seckill.report.evidence import Evidence
from seckill.report.invariants.registry import judge_invariants
from seckill.report.sources import files
from seckill.stack.process_log import Observations
from tests.unit.seckill.report.good_run import good_run

LINES = [
    {"at_ms": 10_000, "what": "died", "name": "inventory.1", "code": -9},
    {"at_ms": 11_500, "what": "up", "name": "inventory.1"},
    {"at_ms": 20_000, "what": "frozen", "name": "mqcore"},
    {"at_ms": 20_500, "what": "stopped", "name": "orders.1"},
    {"at_ms": 24_000, "what": "thawed", "name": "mqcore"},
]


def disturbed() -> Evidence:
    return replace(good_run(), process_events=LINES)


def test_a_death_a_freeze_and_a_stop_last_until_the_same_process_is_back() -> None:
    found = [(each.what, each.at_ms, each.until_ms) for each in find_disturbances(disturbed())]
    assert found == [
        ("inventory.1 died (signal 9)", 10_000, 11_500),
        ("mqcore frozen", 20_000, 24_000),
        ("orders.1 stopped", 20_500, None),
    ]


def test_only_disturbances_that_an_injected_fault_explains_are_planned() -> None:
    run = replace(disturbed(), injected_faults=[{"fault": "inventory-killed", "at_ms": 9_000, "until_ms": 10_500}])
    assert [each.what for each in find_unplanned(run)] == ["mqcore frozen", "orders.1 stopped"]


def test_a_time_without_decisions_while_requests_wait_is_a_disturbance() -> None:
    run = good_run()
    late = [row._replace(decided_at_ms=row.decided_at_ms + 7_000) for row in run.decisions]
    assert find_disturbances(run) == []
    [stall] = find_disturbances(replace(run, decisions=[run.decisions[0], *late[1:]]))
    assert stall.what == "no decisions while requests were waiting"
    assert (stall.until_ms or 0) - stall.at_ms > 5_000


def test_the_report_lists_unplanned_disturbances() -> None:
    run, text = disturbed(), StringIO()
    terminal.print_report(Console(file=text, width=200), run, judge_invariants(run))
    assert "inventory.1 died (signal 9) for 1.5 s (observed, not planned)" in text.getvalue()
    assert "3 observed" in text.getvalue()
    assert [each["is_planned"] for each in terminal.report_as_json(run, judge_invariants(run))["observed"]] == [
        False
    ] * 3


def test_the_report_reads_the_log_that_the_supervisor_writes(tmp_path: Path) -> None:
    path = tmp_path / "evidence" / "observed.jsonl"
    assert files.read_process_log(path) == ([], [])
    Observations(path).note("died", "orders.1", code=1)
    [line], faults = files.read_process_log(path)
    assert (line["what"], line["name"], line["code"], faults) == ("died", "orders.1", 1, [])
    path.write_text(path.read_text() + json.dumps({"at_ms": 1}))
    assert files.read_process_log(path)[1] == ["observed.jsonl: the last line is cut off"]
