"""Each corruption flips the invariant meant for it; a checker that sleeps is found out."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants import judging
from seckill.consistency.invariants.judging import INVARIANTS, judge
from seckill.consistency.selftest import running
from seckill.consistency.selftest.running import CORRUPTIONS
from seckill.consistency.selftest.spoiling import Corruption
from seckill.consistency.verdicts import Found, Invariant, Verdict, overall
from tests.unit.seckill.consistency.good_run import counted, good_run


def whole_run() -> Evidence:
    """With statistics."""
    return counted(good_run())


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda each: f"{each.invariant}: {each.what}")
def test_a_corruption_flips_the_invariant_meant_for_it(corruption: Corruption) -> None:
    judged = judge(corruption.spoil(whole_run()))
    mine = next(each for each in judged if each.invariant.name == corruption.invariant)
    assert mine.verdict is corruption.expected, (mine.violations, mine.reasons)
    assert overall(judged) is not Verdict.PASS


def test_every_invariant_has_a_corruption_of_its_own() -> None:
    assert {each.invariant for each in CORRUPTIONS} == {each.name for each in INVARIANTS}
    assert len(CORRUPTIONS) >= 25


def test_no_corruption_changes_the_run_it_was_given() -> None:
    run, untouched = whole_run(), whole_run()
    for corruption in CORRUPTIONS:
        corruption.spoil(run)
    assert judge(run) == judge(untouched)


def told(evidence: Evidence) -> tuple[int, str]:
    text = StringIO()
    return running.run(Console(file=text, width=200), evidence), text.getvalue()


def test_the_table_says_that_all_were_found() -> None:
    code, text = told(whole_run())
    assert code == 0
    assert f"{len(CORRUPTIONS)} corruptions: {len(CORRUPTIONS)} found, 0 slipped through" in text
    assert "0 of sources that are declared off" in text


def test_a_check_that_sees_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def asleep(evidence: Evidence, found: Found) -> None:
        found.looked_at += 1

    sleepy = tuple(
        Invariant(each.name, each.title, each.needs, asleep) if each.name == "I6" else each for each in INVARIANTS
    )
    monkeypatch.setattr(judging, "INVARIANTS", sleepy)
    code, text = told(whole_run())
    assert code == 1
    assert "1 slipped through" in text


def test_a_run_that_is_not_good_is_no_ground_for_a_selftest() -> None:
    code, text = told(CORRUPTIONS[0].spoil(whole_run()))
    assert code == 2
    assert "needs a run that is good" in text


def test_what_a_run_does_not_offer_is_not_called_found() -> None:
    run = whole_run()
    run.sights.clear()
    code, _ = told(run)
    assert code == 2


def test_a_source_that_is_declared_off_cannot_be_spoilt_and_that_is_no_fault() -> None:
    code, text = told(good_run())
    assert code == 0
    statistics = sum(each.invariant == "I22" for each in CORRUPTIONS)
    assert f"{len(CORRUPTIONS) - statistics} found, 0 slipped through, 0 not possible, {statistics} of sources" in text
