"""Each corruption is noticed by its invariant, and the selftest notices a check that does nothing."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from seckill.report.evidence import Evidence
from seckill.report.invariants import registry
from seckill.report.invariants.registry import INVARIANTS, judge_invariants
from seckill.report.selftest import trials
from seckill.report.selftest.corruptions import Corruption
from seckill.report.selftest.trials import CORRUPTIONS
from seckill.report.verdicts import Findings, Invariant, Verdict, overall_verdict
from tests.unit.seckill.report.good_run import good_run
from tests.unit.seckill.report.spark_tables import with_statistics


def whole_run() -> Evidence:
    """A good run with statistics."""
    return with_statistics(good_run())


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda each: f"{each.invariant}: {each.what}")
def test_a_corruption_is_noticed_by_its_invariant(corruption: Corruption) -> None:
    judged = judge_invariants(corruption.apply(whole_run()))
    mine = next(each for each in judged if each.invariant.name == corruption.invariant)
    assert mine.verdict is corruption.expected, (mine.violations, mine.reasons)
    assert overall_verdict(judged) is not Verdict.PASS


def test_every_invariant_has_a_corruption() -> None:
    assert {each.invariant for each in CORRUPTIONS} == {each.name for each in INVARIANTS}
    assert len(CORRUPTIONS) >= 25


def test_a_corruption_does_not_change_the_original_run() -> None:
    run, untouched = whole_run(), whole_run()
    for corruption in CORRUPTIONS:
        corruption.apply(run)
    assert judge_invariants(run) == judge_invariants(untouched)


def told(evidence: Evidence) -> tuple[int, str]:
    text = StringIO()
    return trials.run_selftest(Console(file=text, width=200), evidence), text.getvalue()


def test_the_selftest_reports_that_all_corruptions_were_detected() -> None:
    code, text = told(whole_run())
    assert code == 0
    assert f"{len(CORRUPTIONS)} corruptions: {len(CORRUPTIONS)} detected, 0 undetected" in text
    assert "0 for sources that are declared off" in text


def test_the_selftest_notices_a_check_that_detects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def asleep(evidence: Evidence, found: Findings) -> None:
        found.checked += 1

    sleepy = tuple(
        Invariant(each.name, each.title, each.needs, asleep) if each.name == "I6" else each for each in INVARIANTS
    )
    monkeypatch.setattr(registry, "INVARIANTS", sleepy)
    code, text = told(whole_run())
    assert code == 1
    assert "1 undetected" in text


def test_the_selftest_refuses_a_run_that_does_not_pass() -> None:
    code, text = told(CORRUPTIONS[0].apply(whole_run()))
    assert code == 2
    assert "needs a run that passes" in text


def test_a_corruption_that_the_run_cannot_show_is_not_counted_as_detected() -> None:
    run = whole_run()
    run.polls.clear()
    code, _ = told(run)
    assert code == 2


def test_corruptions_of_a_source_that_is_off_are_skipped() -> None:
    code, text = told(good_run())
    assert code == 0
    statistics = sum(each.invariant == "I22" for each in CORRUPTIONS)
    assert f"{len(CORRUPTIONS) - statistics} detected, 0 undetected, 0 not possible, {statistics} for sources" in text
