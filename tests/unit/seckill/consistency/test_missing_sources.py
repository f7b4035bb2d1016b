"""Each source that is missing, empty or cut off: the report says UNKNOWN and exits with 2, and never 0 or 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import judge
from seckill.consistency.rows import SOURCES, Source
from seckill.consistency.verdicts import EXIT_CODES, Verdict, overall
from tests.unit.seckill.consistency.good_run import good_run

SPOILT = {
    "missing": lambda letter: Source(letter, {}, ("nobody answers",)),
    "empty": lambda letter: Source(letter, {"rows": 0}),
    "cut off": lambda letter: Source(letter, {"rows": 3}, ("its end is not there",)),
}


def run(letter: str) -> Evidence:
    """A good run in which the source was declared: of S the statistics, of F a fault that happened."""
    whole = {name: Source(name, {"rows": 1}) for name in SOURCES}
    planned = ("made-up",) if letter == "F" else ()
    off = frozenset("S") - {letter}
    return replace(good_run(), sources=whole, off=off, faults_planned=planned, injected=[{"fault": "made-up"}])


@pytest.mark.parametrize("letter", SOURCES)
@pytest.mark.parametrize("how", SPOILT)
def test_a_source_that_is_not_whole_leaves_the_verdict_open(letter: str, how: str) -> None:
    whole = run(letter)
    judged = judge(replace(whole, sources=whole.sources | {letter: SPOILT[how](letter)}))
    assert EXIT_CODES[overall(judged)] == 2
    unknown = {each.invariant.name for each in judged if each.verdict is Verdict.UNKNOWN}
    declared = [each.invariant for each in judged if each.verdict is not Verdict.NOT_RUN]
    assert unknown >= {invariant.name for invariant in declared if letter in invariant.needs} | {"I24"}


@pytest.mark.parametrize("letter", sorted(set(SOURCES) - {"S"}))
def test_the_same_run_passes_when_the_source_is_whole(letter: str) -> None:
    assert overall(judge(run(letter))) is Verdict.PASS
