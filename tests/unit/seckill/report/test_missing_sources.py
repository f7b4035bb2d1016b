"""If a source is missing, empty or cut off, the report says UNKNOWN and exits with 2, never with 0 or 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.invariants.registry import judge_invariants
from seckill.report.verdicts import EXIT_CODES, Verdict, overall_verdict
from tests.unit.seckill.report.good_run import good_run

SPOILT = {
    "missing": lambda source: SourceStatus(source, {}, ("no answer",)),
    "empty": lambda source: SourceStatus(source, {"rows": 0}),
    "cut off": lambda source: SourceStatus(source, {"rows": 3}, ("its end is missing",)),
}


def run(source: Source) -> Evidence:
    """A good run in which the source is required: statistics are not declared off, or a fault was planned and
    happened."""
    whole = {name: SourceStatus(name, {"rows": 1}) for name in Source}
    planned = ("made-up",) if source is Source.FAULTS else ()
    off = frozenset({Source.STATISTICS}) - {source}
    return replace(
        good_run(), sources=whole, declared_off=off, planned_faults=planned, injected_faults=[{"fault": "made-up"}]
    )


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("how", SPOILT)
def test_an_incomplete_source_makes_the_verdict_unknown(source: Source, how: str) -> None:
    whole = run(source)
    judged = judge_invariants(replace(whole, sources=whole.sources | {source: SPOILT[how](source)}))
    assert EXIT_CODES[overall_verdict(judged)] == 2
    unknown = {each.invariant.name for each in judged if each.verdict is Verdict.UNKNOWN}
    declared = [each.invariant for each in judged if each.verdict is not Verdict.NOT_RUN]
    assert unknown >= {invariant.name for invariant in declared if source in invariant.needs} | {"I24"}


@pytest.mark.parametrize("source", sorted(set(Source) - {Source.STATISTICS}))
def test_the_same_run_passes_when_the_source_is_complete(source: Source) -> None:
    assert overall_verdict(judge_invariants(run(source))) is Verdict.PASS
