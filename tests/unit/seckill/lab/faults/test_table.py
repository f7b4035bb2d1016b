"""The table of faults: what it promises, and how a case's verdict follows from what happened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import seckill.faults.cases  # noqa: F401  # fills the table
from seckill.consistency.invariants.judging import INVARIANTS, judge
from seckill.faults import chronicle, page
from seckill.faults.case import CASES, Case, Rush, in_order
from seckill.faults.cases.everything import Toll
from seckill.faults.command import main
from seckill.faults.running import Row, Runner, judged_row, sharing
from seckill.faults.world import Stuck
from tests.unit.seckill.consistency.good_run import good_run

NUMBERS = {str(number) for number in range(1, 47) if number != 15} | {"15a", "15b"}


def test_every_fault_of_the_design_has_its_case() -> None:
    assert {case.number for case in CASES.values()} >= NUMBERS
    assert len({case.number for case in CASES.values()}) == len(CASES)


def test_what_cannot_be_run_says_what_it_needs() -> None:
    assert all(bool(case.needs) == (case.act is None) for case in CASES.values())


def test_a_case_that_must_fail_names_invariants_that_there_are() -> None:
    known = {invariant.name for invariant in INVARIANTS}
    marked = [case for case in CASES.values() if case.breaks]
    assert {case.number for case in marked} == {"15b", "18", "37", "38"}
    assert all(set(case.breaks) <= known for case in marked)


def test_what_spoils_the_books_comes_last() -> None:
    spoilt = [case.spoils for case in in_order()]
    assert spoilt == sorted(spoilt)


# ── the verdict ──────────────────────────────────────────────────────────────────────────────────


def case(*breaks: str) -> Case:
    return Case("0", "made-up", "something breaks", None, Rush(), breaks)


def judged(of: Case, evidence: object = None, missing: tuple[str, ...] = (), **numbers: int) -> Row:
    row = Row(of.number, of.name, of.title, of.expected, "", False, power=dict(numbers), missing=missing)
    run = good_run() if evidence is None else evidence
    return judged_row(of, row, run, judge(run), "")  # type: ignore[arg-type]


def forged() -> object:
    run = good_run()
    return replace(run, stocks=[run.stocks[0]._replace(available=run.stocks[0].available + 50)])


def test_a_fault_that_happened_and_broke_nothing_behaved() -> None:
    row = judged(case(), killed=2)
    assert (row.verdict, row.behaved, row.power) == ("PASS", True, {"killed": 2})
    assert row.again == 1


def test_a_fault_that_did_not_happen_proves_nothing_however_well_the_books_look() -> None:
    row = judged(case(), missing=("processes killed",))
    assert not row.behaved
    assert "processes killed" in row.why


def test_a_fault_that_broke_something_did_not_behave() -> None:
    row = judged(case(), forged())
    assert (row.verdict, row.behaved) == ("FAIL", False)
    assert row.why.startswith("I2")


def test_what_must_be_found_behaves_only_if_it_is_found() -> None:
    assert judged(case("I2"), forged()).behaved
    assert not judged(case("I2")).behaved
    assert not judged(case("I12"), forged()).behaved, "found, but not that"


# ── what is kept and shown ───────────────────────────────────────────────────────────────────────


def test_results_are_kept_for_a_run_that_goes_on_later(tmp_path: Path) -> None:
    runner = Runner(tmp_path, 25_000, 1, 1.0, lambda text: None)
    assert runner.kept() == []
    row = judged(case(), killed=2)
    runner.keep([row])
    assert runner.kept() == [row]


def test_a_case_that_cannot_be_run_is_shown_and_is_no_failure(tmp_path: Path) -> None:
    [row] = Runner(tmp_path, 25_000, 1, 1.0, lambda text: None).run([CASES["minority-cut-off"]])
    assert (row.verdict, row.why) == ("NOT RUN", "needs cluster")
    assert "needs cluster" in page.written([row], 1, 1.0)


def test_the_page_says_first_whether_all_behaved() -> None:
    good, bad = judged(case()), judged(case(), forged())
    assert "as marked</span> · 1 of 1" in page.written([good], 1, 1.0)
    assert "not as marked</span> · 1 of 2" in page.written([good, bad], 1, 1.0)
    assert "<script" not in page.written([replace(bad, why="<script>")], 1, 1.0)


def test_what_is_kept_with_the_code_says_what_was_done_and_what_each_invariant_said(tmp_path: Path) -> None:
    good = replace(judged(case(), killed=1234), report="reports/made-up.html")
    (tmp_path / "reports").mkdir()
    found = {"looked_at": 7, "violations": 0, "facts": {"units": 5}, "reasons": [], "examples": []}
    invariant = {"name": "I1", "title": "never | too many", "verdict": "PASS", **found}
    (tmp_path / "reports" / "made-up.json").write_text(json.dumps({"invariants": [invariant]}))
    absent = Row("8", "cut-off", "nobody is there", "—", "NOT RUN", True, "needs cluster")
    chronicle.write([good, absent], tmp_path, tmp_path / "kept", "seckill faults run made-up", 1.0)
    text = (tmp_path / "kept.md").read_text()
    assert "`seckill faults run made-up`" in text
    assert "| killed | 1,234 |" in text
    assert "| I1 | never / too many | PASS | 7 | units 5 |" in text
    assert "## cut-off: NOT RUN, needs cluster" in text
    assert "| 0 | made-up | PASS | PASS | as marked |  |  |" in text
    said = json.loads((tmp_path / "kept.json").read_text())
    assert said["cases"][0]["power"] == {"killed": 1234}
    assert said["cases"][0]["invariants"][0]["verdict"] == "PASS"


def test_invariants_that_were_judged_for_several_are_shown_once(tmp_path: Path) -> None:
    rows = [replace(judged(case()), name=name, report="reports/second.html") for name in ("first", "second")]
    (tmp_path / "reports").mkdir()
    found = {"looked_at": 7, "violations": 0, "facts": {}, "reasons": [], "examples": []}
    said = {"invariants": [{"name": "I1", "title": "never too many", "verdict": "PASS", **found}]}
    (tmp_path / "reports" / "second.json").write_text(json.dumps(said))
    chronicle.write(rows, tmp_path, tmp_path / "kept", "seckill faults run first second", 1.0)
    text = (tmp_path / "kept.md").read_text()
    assert text.count("never too many") == 1 and text.index("## second") < text.index("never too many")
    assert "| 0 | first | PASS | PASS | as marked |  | second |" in text


# ── who shares a report ──────────────────────────────────────────────────────────────────────────


def names(groups: list[list[Case]]) -> list[list[str]]:
    return [[each.name for each in group] for group in groups]


def test_each_has_a_report_of_its_own_unless_it_is_told_to_share() -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "redis-flushall")]
    assert names(sharing(cases, 1)) == [["double-click"], ["two-doors"], ["redis-flushall"]]
    assert names(sharing(cases, 2)) == [["double-click", "two-doors"], ["redis-flushall"]]


def test_what_spoils_a_stack_or_wants_another_one_shares_with_nobody() -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "chaos", "stock-forged", "crowd-log-lost")]
    assert names(sharing(cases, 9)) == [["double-click", "two-doors"], ["chaos"], ["stock-forged"], ["crowd-log-lost"]]


class Stage(Runner):
    """Its cases happen in no time, and all but one of them well."""

    def _happen(self, case: Case, row: Row) -> Row:
        if case.name == "two-doors":
            raise Stuck("waited in vain")
        return row


def test_one_that_gets_stuck_is_no_result_for_whoever_shares_its_report(tmp_path: Path) -> None:
    cases = [CASES[name] for name in ("double-click", "two-doors", "redis-flushall")]
    rows = Stage(tmp_path, 25_000, 1, 1.0, lambda text: None).run(cases)
    assert [row.verdict for row in rows] == ["STUCK"] * 3
    assert not any(row.behaved for row in rows)
    assert all(row.why == "at two-doors: Stuck: waited in vain" for row in rows)


# ── chaos ────────────────────────────────────────────────────────────────────────────────────────


def alive(restarts: int, state: str = "up") -> dict[str, dict[str, object]]:
    return {"orders.1": {"restarts": restarts, "state": state}}


def test_who_is_killed_is_away_until_his_next_life_is_up() -> None:
    toll = Toll()
    toll.strike("orders.1", alive(3), 100.0)
    toll.look(alive(3), 100.2)  # not yet seen dead
    toll.look(alive(4, "starting"), 101.0)
    assert toll.away_s == []
    toll.look(alive(4), 102.5)
    assert (toll.away_s, toll.killed) == ([2.5], {"orders": 1})


def test_who_is_killed_again_while_he_starts_is_away_since_the_first_time() -> None:
    toll = Toll()
    toll.strike("orders.1", alive(3), 100.0)
    toll.strike("orders.1", alive(4, "starting"), 102.0)
    toll.look(alive(4), 102.1)
    assert toll.away_s == []
    toll.look(alive(5), 104.0)
    assert (toll.away_s, toll.killed.total()) == ([4.0], 2)


def test_the_list_names_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(case.name in told for case in CASES.values())


def test_an_unknown_case_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "flood", "--data", str(tmp_path / "data")]) == 3
    assert "no case 'flood'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
