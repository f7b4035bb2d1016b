"""I22: Spark's counts against the log and the books; a count that is off by one is found."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import identity
from seckill.consistency.invariants.judging import INVARIANTS, judge_one
from seckill.consistency.rows import Source
from seckill.consistency.verdicts import Judged, Verdict
from tests.unit.seckill.consistency.good_run import counted, good_run

I22 = next(each for each in INVARIANTS if each.name == "I22")


def judged(evidence: Evidence) -> Judged:
    return judge_one(I22, evidence)


@pytest.fixture
def run() -> Evidence:
    return counted(good_run())


def less(evidence: Evidence, kind: str) -> Evidence:
    rows = [row._replace(events=row.events - 1) if row.kind == kind else row for row in evidence.counted]
    return replace(evidence, counted=rows)


def test_statistics_of_a_good_run_tie(run: Evidence) -> None:
    found = judged(run)
    assert found.verdict is Verdict.PASS, found.violations
    assert found.looked_at > 10


@pytest.mark.parametrize("kind", ["PurchaseRequested", "RESERVED", "SOLD_OUT", "OrderPaid"])
def test_one_event_less_is_found(run: Evidence, kind: str) -> None:
    found = judged(less(run, kind))
    assert found.verdict is Verdict.FAIL
    assert any(kind in violation.text for violation in found.violations)


def test_money_that_was_never_paid_is_found(run: Evidence) -> None:
    rows = [row._replace(amount=row.amount + 1) if row.kind == "OrderPaid" else row for row in run.counted]
    assert judged(replace(run, counted=rows)).verdict is Verdict.FAIL


def test_a_decision_that_only_the_database_has_is_found(run: Evidence) -> None:
    first = run.decided[0]
    more = first._replace(request_id=identity(str(UUID(int=1))), place=first.place._replace(offset=10_000))
    assert judged(replace(run, decided=[*run.decided, more])).verdict is Verdict.FAIL


def test_counts_up_to_an_earlier_cut_are_compared_with_the_log_up_to_there_and_prove_nothing_more(
    run: Evidence,
) -> None:
    last = max(said.place for said in run.decisions_said)
    said = next(each for each in run.decisions_said if each.place == last)
    cuts = [
        row._replace(end=last.offset) if (row.topic, row.partition) == ("inventory.decisions", last.partition) else row
        for row in run.counted_to
    ]
    earlier = replace(run, counted_to=cuts)
    assert judged(earlier).verdict is Verdict.FAIL  # counted what lies beyond the cut
    found = judged(less(earlier, said.decision))
    assert found.verdict is Verdict.UNKNOWN
    assert not found.violations


def test_without_statistics_nothing_is_known() -> None:
    evidence = good_run()
    sources = evidence.sources | {"S": Source("S", {}, ("there are no statistics",))}
    assert judged(replace(evidence, sources=sources, off=frozenset())).verdict is Verdict.UNKNOWN
