"""The report lists what disturbed a run, and whether it was planned."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from seckill.report import terminal
from seckill.report.disturbances import find_disturbances, find_unplanned
from seckill.report.evidence import Evidence
from seckill.report.invariants.outages import find_outages
from seckill.report.invariants.registry import judge_invariants
from seckill.report.rows import Attempt, Silence
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


# ── what the report service noticed ──────────────────────────────────────────────────────────────

KILLED = Silence("seckill-inventory-1", "silent", 30_000, 36_000, "restarted")
PAUSED = Silence("redis", "unanswered", 40_000, 45_500, "resumed")
STOPPED = Silence("seckill-celery-1", "stopped", 50_000, None, "")


def test_a_silence_is_an_observed_disturbance_that_claims_only_what_was_seen() -> None:
    found = find_disturbances(replace(good_run(), silences=[KILLED, PAUSED, STOPPED]))
    assert [str(each) for each in found] == [
        "seckill-inventory-1 gave no sign of life for 6.0 s, then was started again (observed, not planned)",
        "redis did not answer for 5.5 s, then continued (observed, not planned)",
        "seckill-celery-1 stopped in order (observed, not planned)",
    ]


def test_many_processes_that_fall_silent_together_are_one_disturbance() -> None:
    """A machine that stood still, or a network that was cut. Those that are killed one by one stay apart."""
    together = [Silence(f"p{n}", "silent", 30_000 + 300 * n, 36_000 + n, "resumed") for n in range(6)]
    apart = [Silence(f"q{n}", "silent", 60_000 + 3_000 * n, 70_000, "restarted") for n in range(6)]
    first, *others = find_disturbances(replace(good_run(), silences=[*apart, *together]))
    assert first.what == "6 processes at once gave no sign of life (p0, p1, p2, p3, p4, p5)"
    assert (first.at_ms, first.until_ms) == (30_000, 36_005)
    assert [each.process for each in others] == [f"q{n}" for n in range(6)]


def test_a_quiet_run_has_no_disturbances() -> None:
    assert find_disturbances(good_run()) == []


@pytest.mark.parametrize(
    ("silence", "is_known"),
    [
        (Silence("mqcore", "silent", 19_000, 24_500, "resumed"), True),
        (Silence("mqcore", "silent", 23_000, None, ""), True),
        (Silence("mqcore", "silent", 40_000, 44_000, "resumed"), False),
        (Silence("redis", "silent", 19_000, 24_500, "resumed"), False),
        (Silence("orders.1", "stopped", 26_000, 30_000, "restarted"), True),
    ],
)
def test_what_the_supervisor_has_logged_is_not_reported_twice(silence: Silence, is_known: bool) -> None:
    found = find_disturbances(replace(disturbed(), silences=[silence]))
    assert len(found) == (3 if is_known else 4)


def refused_for_a_minute(run: Evidence) -> Evidence:
    last_ms = max(attempt.at_ms for attempt in run.attempts) + 300_000
    away = [
        Attempt(last_ms + 1_000 * number, 5, f"away-{number}", "first", 1, 1, 503, None, None, None, problem="queue")
        for number in range(60)
    ]
    return replace(run, attempts=[*run.attempts, *away])


@pytest.mark.parametrize(
    ("name", "kind", "is_explained"),
    [("mqcore", "silent", True), ("reports", "unwatched", False), (None, "", False)],
)
def test_a_long_outage_is_explained_by_a_silence_but_not_by_the_absence_of_the_watcher(
    name: str | None, kind: str, is_explained: bool
) -> None:
    run = refused_for_a_minute(good_run())
    at_ms = run.attempts[-1].at_ms
    silences = [Silence(name, kind, at_ms - 20_000, at_ms - 10_000, "resumed")] if name else []
    assert bool(list(find_outages(replace(run, silences=silences)))) is not is_explained
