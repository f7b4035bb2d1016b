"""What disturbed a run is listed, and whether it was planned."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from seckill.consistency import show
from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import judge
from seckill.consistency.observed import disturbances, unplanned
from seckill.consistency.sources import files
from seckill.stack.observing import Observations
from tests.unit.seckill.consistency.good_run import good_run

LINES = [
    {"at_ms": 10_000, "what": "died", "name": "inventory.1", "code": -9},
    {"at_ms": 11_500, "what": "up", "name": "inventory.1"},
    {"at_ms": 20_000, "what": "frozen", "name": "mqcore"},
    {"at_ms": 20_500, "what": "stopped", "name": "orders.1"},
    {"at_ms": 24_000, "what": "thawed", "name": "mqcore"},
]


def disturbed() -> Evidence:
    return replace(good_run(), observed=LINES)


def test_a_death_a_freeze_and_a_stop_last_until_the_same_process_is_back() -> None:
    found = [(each.what, each.at_ms, each.until_ms) for each in disturbances(disturbed())]
    assert found == [
        ("inventory.1 died (signal 9)", 10_000, 11_500),
        ("mqcore frozen", 20_000, 24_000),
        ("orders.1 stopped", 20_500, None),
    ]


def test_what_an_injected_fault_explains_is_planned_and_the_rest_is_not() -> None:
    run = replace(disturbed(), injected=[{"fault": "inventory-killed", "at_ms": 9_000, "until_ms": 10_500}])
    assert [each.what for each in unplanned(run)] == ["mqcore frozen", "orders.1 stopped"]


def test_nothing_decided_while_requests_waited_is_observed_whoever_runs_the_processes() -> None:
    run = good_run()
    late = [row._replace(decided_at_ms=row.decided_at_ms + 7_000) for row in run.decided]
    assert disturbances(run) == []
    [stall] = disturbances(replace(run, decided=[run.decided[0], *late[1:]]))
    assert stall.what == "nothing was decided, while requests waited"
    assert (stall.until_ms or 0) - stall.at_ms > 5_000


def test_the_report_lists_what_was_observed_and_not_planned() -> None:
    run, text = disturbed(), StringIO()
    show.as_table(Console(file=text, width=200), run, judge(run))
    assert "inventory.1 died (signal 9) for 1.5 s (observed, not planned)" in text.getvalue()
    assert "3 observed" in text.getvalue()
    assert [each["is_planned"] for each in show.as_json(run, judge(run))["observed"]] == [False] * 3


def test_the_supervisors_notes_are_read_as_it_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "evidence" / "observed.jsonl"
    assert files.observed(path) == ([], [])
    Observations(path).note("died", "orders.1", code=1)
    [line], faults = files.observed(path)
    assert (line["what"], line["name"], line["code"], faults) == ("died", "orders.1", 1, [])
    path.write_text(path.read_text() + json.dumps({"at_ms": 1}))
    assert files.observed(path)[1] == ["observed.jsonl: the last line is cut off"]
