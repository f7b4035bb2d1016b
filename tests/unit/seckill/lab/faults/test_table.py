"""The table of faults, and how the result of a case follows from its findings and the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import seckill.lab.faults.cases  # noqa: F401  # fills the table
from seckill.cli.__main__ import main
from seckill.lab.faults import html_page, markdown_page
from seckill.lab.faults.case import CASES, Case, CrowdPlan, Steps, cases_in_order
from seckill.lab.faults.cases.everything import KillRecord
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.outside_servers import OUTSIDE_SERVERS
from seckill.lab.faults.results import CaseResult, blank_result, group_cases, judge_result
from seckill.lab.faults.runner import Runner
from seckill.lab.lab_stack import ExperimentFailed
from seckill.report.invariants.registry import INVARIANTS, judge_invariants
from tests.unit.seckill.report.good_run import good_run

NUMBERS = {str(number) for number in range(1, 47)} - {"8", "15"} | {"15a", "15b"}
ON_THREE_BROKERS = {"7a", "7b"} | {f"8{letter}" for letter in "abcdefghijk"}


def test_every_planned_fault_has_a_case() -> None:
    assert {case.number for case in CASES.values()} >= NUMBERS | ON_THREE_BROKERS
    assert len({case.number for case in CASES.values()}) == len(CASES)


def test_a_case_that_one_broker_cannot_run_says_what_it_needs() -> None:
    assert {case.number for case in CASES.values() if case.brokers == 3} == ON_THREE_BROKERS
    assert {case.needs for case in CASES.values()} == {"", "3 brokers (--brokers 3)"}
    assert {case.number for case in CASES.values() if case.needs} == ON_THREE_BROKERS


def test_a_case_that_must_break_invariants_names_existing_ones() -> None:
    known = {invariant.name for invariant in INVARIANTS}
    marked = [case for case in CASES.values() if case.must_break]
    assert {case.number for case in marked} == {"15b", "18", "37", "38"}
    assert all(set(case.must_break) <= known for case in marked)


def test_cases_that_spoil_the_stack_come_last() -> None:
    spoil = [case.spoils_stack for case in cases_in_order()]
    assert spoil == sorted(spoil)


# ── the verdict ──────────────────────────────────────────────────────────────────────────────────


def no_steps(run: FaultRun) -> Steps:
    yield


def case(*breaks: str) -> Case:
    return Case("0", "made-up", "something breaks", no_steps, CrowdPlan(), breaks)


def judged(of: Case, evidence: object = None, missing: tuple[str, ...] = (), **numbers: int) -> CaseResult:
    row = CaseResult(of.number, of.name, of.title, of.expected, "", False, power=dict(numbers), missing=missing)
    run = good_run() if evidence is None else evidence
    return judge_result(of, row, run, judge_invariants(run), "")  # type: ignore[arg-type]


def forged() -> object:
    run = good_run()
    return replace(run, stocks=[run.stocks[0]._replace(available=run.stocks[0].available + 50)])


def test_a_fault_that_happened_and_broke_nothing_behaved() -> None:
    row = judged(case(), killed=2)
    assert (row.verdict, row.behaved, row.power) == ("PASS", True, {"killed": 2})
    assert row.again == 1


def test_a_fault_that_did_not_happen_has_not_behaved_even_if_the_books_balance() -> None:
    row = judged(case(), missing=("processes killed",))
    assert not row.behaved
    assert "processes killed" in row.why


def test_a_fault_that_broke_something_did_not_behave() -> None:
    row = judged(case(), forged())
    assert (row.verdict, row.behaved) == ("FAIL", False)
    assert row.why.startswith("I2")


def test_forged_books_behave_only_if_the_report_finds_them() -> None:
    assert judged(case("I2"), forged()).behaved
    assert not judged(case("I2")).behaved
    assert not judged(case("I12"), forged()).behaved, "found, but not that"


# ── what is kept and shown ───────────────────────────────────────────────────────────────────────


def test_results_are_saved_for_a_later_run(tmp_path: Path) -> None:
    runner = Runner(tmp_path, 25_000, 1, 1.0, lambda text: None)
    assert runner.load_results() == []
    row = judged(case(), killed=2)
    runner.save_results([row])
    assert runner.load_results() == [row]


def test_a_case_that_needs_three_brokers_is_shown_on_one_and_does_not_fail(tmp_path: Path) -> None:
    [row] = Runner(tmp_path, 25_000, 1, 1.0, lambda text: None).run([CASES["leader-killed"]])
    assert (row.verdict, row.why, row.behaved) == ("NOT RUN", "needs 3 brokers (--brokers 3)", True)
    assert "needs 3 brokers" in html_page.render_faults([row], 1, 1.0)


def test_a_case_that_needs_three_brokers_has_not_behaved_on_three_before_it_has_run() -> None:
    row = blank_result(CASES["leader-killed"], 3)
    assert (row.verdict, row.expected, row.behaved) == ("", "PASS", False)


def test_the_page_begins_with_whether_all_cases_behaved() -> None:
    good, bad = judged(case()), judged(case(), forged())
    assert "as expected</span> · 1 of 1" in html_page.render_faults([good], 1, 1.0)
    assert "not as expected</span> · 1 of 2" in html_page.render_faults([good, bad], 1, 1.0)
    assert "<script" not in html_page.render_faults([replace(bad, why="<script>")], 1, 1.0)


def test_the_markdown_page_has_the_findings_and_every_invariant(tmp_path: Path) -> None:
    good = replace(judged(case(), killed=1234), report="reports/made-up.html")
    (tmp_path / "reports").mkdir()
    found = {"looked_at": 7, "violations": 0, "facts": {"units": 5}, "reasons": [], "examples": []}
    invariant = {"name": "I1", "title": "never | too many", "verdict": "PASS", **found}
    (tmp_path / "reports" / "made-up.json").write_text(json.dumps({"invariants": [invariant]}))
    absent = CaseResult("8", "cut-off", "nobody is there", "—", "NOT RUN", True, "needs 3 brokers")
    markdown_page.write_faults_page([good, absent], tmp_path, tmp_path / "kept", "seckill faults run made-up", 1.0)
    text = (tmp_path / "kept.md").read_text()
    assert "`seckill faults run made-up`" in text
    assert "| killed | 1,234 |" in text
    assert "| I1 | never / too many | PASS | 7 | units 5 |" in text
    assert "## cut-off: NOT RUN, needs 3 brokers" in text
    assert "| 0 | made-up | PASS | PASS | as expected |  |  |" in text
    said = json.loads((tmp_path / "kept.json").read_text())
    assert said["cases"][0]["power"] == {"killed": 1234}
    assert said["cases"][0]["invariants"][0]["verdict"] == "PASS"


def test_a_shared_report_is_shown_once(tmp_path: Path) -> None:
    rows = [replace(judged(case()), name=name, report="reports/second.html") for name in ("first", "second")]
    (tmp_path / "reports").mkdir()
    found = {"looked_at": 7, "violations": 0, "facts": {}, "reasons": [], "examples": []}
    said = {"invariants": [{"name": "I1", "title": "never too many", "verdict": "PASS", **found}]}
    (tmp_path / "reports" / "second.json").write_text(json.dumps(said))
    markdown_page.write_faults_page(rows, tmp_path, tmp_path / "kept", "seckill faults run first second", 1.0)
    text = (tmp_path / "kept.md").read_text()
    assert text.count("never too many") == 1 and text.index("## second") < text.index("never too many")
    assert "| 0 | first | PASS | PASS | as expected |  | second |" in text


# ── who shares a report ──────────────────────────────────────────────────────────────────────────


def names(groups: list[list[Case]]) -> list[list[str]]:
    return [[each.name for each in group] for group in groups]


def test_each_case_has_its_own_report_unless_cases_share_one() -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "redis-flushall")]
    assert names(group_cases(cases, 1, brokers=1)) == [["double-click"], ["two-doors"], ["redis-flushall"]]
    assert names(group_cases(cases, 2, brokers=1)) == [["double-click", "two-doors"], ["redis-flushall"]]


def test_a_case_that_spoils_a_stack_or_needs_another_runs_alone() -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "chaos", "stock-forged", "crowd-log-lost")]
    groups = [["double-click", "two-doors"], ["chaos"], ["stock-forged"], ["crowd-log-lost"]]
    assert names(group_cases(cases, 9, brokers=1)) == groups


def test_a_case_that_needs_more_brokers_shares_no_report_with_those_that_run() -> None:
    cases = [CASES[name] for name in ("broker-killed", "leader-killed", "redis-flushall")]
    assert names(group_cases(cases, 9, brokers=1)) == [["broker-killed"], ["leader-killed"], ["redis-flushall"]]
    assert names(group_cases(cases, 9, brokers=3)) == [["broker-killed", "leader-killed", "redis-flushall"]]


def test_a_case_with_servers_of_its_own_shares_no_report_with_the_others() -> None:
    cases = [CASES[name] for name in ("redis-flushall", "postgres-failover", "redis-cluster-failover")]
    assert names(group_cases(cases, 9, brokers=1)) == [[case.name] for case in cases]
    assert {case.servers for case in CASES.values()} == {"", *OUTSIDE_SERVERS}


class InstantRunner(Runner):
    """Its cases take no time, and one of them fails."""

    def _run_case(self, case: Case, row: CaseResult) -> CaseResult:
        if case.name == "two-doors":
            raise ExperimentFailed("waited in vain")
        return row


def test_a_case_that_fails_invalidates_the_results_that_share_its_report(tmp_path: Path) -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "redis-flushall")]
    rows = InstantRunner(tmp_path, 25_000, 1, 1.0, lambda text: None).run(cases)
    assert [row.verdict for row in rows] == ["STUCK"] * 3
    assert not any(row.behaved for row in rows)
    assert all(row.why == "at two-doors: ExperimentFailed: waited in vain" for row in rows)


# ── chaos ────────────────────────────────────────────────────────────────────────────────────────


def alive(restarts: int, state: str = "up") -> dict[str, dict[str, object]]:
    return {"orders.1": {"restarts": restarts, "state": state}}


def test_a_killed_process_counts_as_down_until_its_restart_is_up() -> None:
    kills = KillRecord()
    kills.add("orders.1", alive(3), 100.0)
    kills.update(alive(3), 100.2)  # the supervisor has not noticed it yet
    kills.update(alive(4, "starting"), 101.0)
    assert kills.down_s == []
    kills.update(alive(4), 102.5)
    assert (kills.down_s, kills.killed) == ([2.5], {"orders": 1})


def test_a_process_killed_again_while_starting_counts_as_down_since_the_first_kill() -> None:
    kills = KillRecord()
    kills.add("orders.1", alive(3), 100.0)
    kills.add("orders.1", alive(4, "starting"), 102.0)
    kills.update(alive(4), 102.1)
    assert kills.down_s == []
    kills.update(alive(5), 104.0)
    assert (kills.down_s, kills.killed.total()) == ([4.0], 2)


def test_the_list_names_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "list"]) == 0
    told = capsys.readouterr().out
    assert all(case.name in told for case in CASES.values())


def test_a_stack_of_two_brokers_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "run", "7a", "--brokers", "2", "--data", str(tmp_path / "data")]) == 2
    assert "--brokers must be 1 or 3, got 2" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_results_of_cases_that_did_not_run_are_no_reason_to_skip_them_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run had one broker, so the second has everything to do."""
    asked: list[str] = []

    def run(runner: Runner, cases: list[Case]) -> list[CaseResult]:
        asked.extend(case.name for case in cases)
        return [blank_result(case, runner.brokers) for case in cases]

    monkeypatch.setattr(Runner, "run", run)
    words = ["faults", "run", "7a", "--resume", "--data", str(tmp_path)]
    assert main(words) == 0
    assert "all 0 behaved as expected, 1 not run" in capsys.readouterr().out
    assert main([*words, "--brokers", "3"]) == 1
    assert asked == ["leader-killed", "leader-killed"]


def test_an_unknown_case_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "run", "flood", "--data", str(tmp_path / "data")]) == 3
    assert "no case 'flood'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
