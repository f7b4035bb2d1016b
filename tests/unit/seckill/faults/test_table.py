"""The table of faults: what it promises, and how a case's verdict follows from what happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import seckill.faults.cases  # noqa: F401  # fills the table
from seckill.consistency.invariants.judging import INVARIANTS, judge
from seckill.faults import page
from seckill.faults.case import CASES, Case, Rush, in_order
from seckill.faults.command import main
from seckill.faults.running import Row, Runner, judged_row
from tests.unit.seckill.consistency.good_run import good_run

NUMBERS = {str(number) for number in range(1, 41) if number != 15} | {"15a", "15b"}


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
    row = Row(of.number, of.name, of.title, of.expected, "", False)
    run = good_run() if evidence is None else evidence
    return judged_row(of, row, dict(numbers), missing, run, judge(run), "")  # type: ignore[arg-type]


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
    row = Runner(tmp_path, 25_000, 1, 1.0, lambda text: None).run(CASES["minority-cut-off"])
    assert (row.verdict, row.why) == ("NOT RUN", "needs cluster")
    assert "needs cluster" in page.written([row], 1, 1.0)


def test_the_page_says_first_whether_all_behaved() -> None:
    good, bad = judged(case()), judged(case(), forged())
    assert "as marked</span> · 1 of 1" in page.written([good], 1, 1.0)
    assert "not as marked</span> · 1 of 2" in page.written([good, bad], 1, 1.0)
    assert "<script" not in page.written([replace(bad, why="<script>")], 1, 1.0)


def test_the_list_names_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(case.name in told for case in CASES.values())


def test_an_unknown_case_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "flood", "--data", str(tmp_path / "data")]) == 3
    assert "no case 'flood'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
