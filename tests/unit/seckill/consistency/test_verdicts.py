"""What a verdict follows from: PASS is earned, and nothing is concluded from what is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.consistency.evidence import Evidence, Source
from seckill.consistency.invariants.judging import INVARIANTS, judge, judge_one
from seckill.consistency.verdicts import EXIT_CODES, Found, Invariant, Verdict, overall
from tests.unit.seckill.consistency.good_run import good_run


def of(evidence: Evidence, name: str) -> Verdict:
    return next(each.verdict for each in judge(evidence) if each.invariant.name == name)


def test_a_good_run_passes_every_invariant_that_is_declared() -> None:
    judged = judge(good_run())
    assert {each.invariant.name: each.verdict for each in judged if each.verdict is not Verdict.PASS} == {
        "I22": Verdict.NOT_RUN
    }
    assert overall(judged) is Verdict.PASS
    assert EXIT_CODES[overall(judged)] == 0


def test_all_24_invariants_are_judged_in_order() -> None:
    assert [invariant.name for invariant in INVARIANTS] == [f"I{number}" for number in range(1, 25)]


def test_nothing_at_all_is_unknown_and_never_a_pass() -> None:
    nothing = Evidence({letter: Source(letter, {}) for letter in "CKRLOPNGSF"}, 0)
    judged = judge(nothing)
    assert {each.verdict for each in judged} == {Verdict.UNKNOWN}
    assert overall(judged) is Verdict.UNKNOWN
    assert overall([]) is Verdict.UNKNOWN
    assert EXIT_CODES[overall(judged)] == 2


@pytest.mark.parametrize("letter", "CKRLOPNG")
def test_each_source_that_is_not_whole_keeps_the_run_from_passing(letter: str) -> None:
    run = good_run()
    for source in (Source(letter, {"rows": 1}, ("cut off",)), Source(letter, {"rows": 0})):
        spoilt = replace(run, sources={**run.sources, letter: source})
        assert overall(judge(spoilt)) is Verdict.UNKNOWN


def test_a_source_that_is_declared_off_is_neutral() -> None:
    run = replace(good_run(), off=frozenset("SN"), sources={**good_run().sources, "N": Source("N", {})})
    assert of(run, "I21") is Verdict.NOT_RUN
    assert overall(judge(run)) is Verdict.PASS


def test_what_is_missing_may_still_come_while_something_is_under_way() -> None:
    run = good_run()
    undecided = replace(run, decided=run.decided[:-1])
    assert of(undecided, "I9") is Verdict.FAIL
    assert of(replace(undecided, under_way=("inventory is 1 records behind",)), "I9") is Verdict.UNKNOWN


def test_what_is_wrong_is_wrong_although_something_is_under_way() -> None:
    run = good_run()
    twice = replace(run, decided=[*run.decided, run.decided[0]], under_way=("orders is 1 records behind",))
    assert of(twice, "I9") is Verdict.FAIL


def test_from_a_source_that_is_not_whole_nothing_follows() -> None:
    run = good_run()
    damaged = {**run.sources, "K": Source("K", {"requested": 1}, ("its head is gone",))}
    twice = replace(run, decided=[*run.decided, run.decided[0]], sources=damaged)
    assert of(twice, "I9") is Verdict.UNKNOWN


def test_a_check_that_has_looked_at_nothing_is_unknown() -> None:
    def looks_away(evidence: Evidence, found: Found) -> None:
        pass

    assert judge_one(Invariant("I0", "", ("L",), looks_away), good_run()).verdict is Verdict.UNKNOWN
