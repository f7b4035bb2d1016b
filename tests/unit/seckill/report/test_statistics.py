"""I22 compares Spark's counts with the log and the database, and notices a count that is off by one."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.identity import identity
from seckill.report.invariants.registry import INVARIANTS, judge_invariant
from seckill.report.verdicts import Judgement, Verdict
from tests.unit.seckill.report.good_run import good_run
from tests.unit.seckill.report.spark_tables import with_statistics

I22 = next(each for each in INVARIANTS if each.name == "I22")


def judged(evidence: Evidence) -> Judgement:
    return judge_invariant(I22, evidence)


@pytest.fixture
def run() -> Evidence:
    return with_statistics(good_run())


def less(evidence: Evidence, kind: str) -> Evidence:
    rows = [row._replace(events=row.events - 1) if row.kind == kind else row for row in evidence.spark_counts]
    return replace(evidence, spark_counts=rows)


def test_the_statistics_of_a_passing_run_match(run: Evidence) -> None:
    found = judged(run)
    assert found.verdict is Verdict.PASS, found.violations
    assert found.checked > 10


@pytest.mark.parametrize("kind", ["PurchaseRequested", "RESERVED", "SOLD_OUT", "OrderPaid"])
def test_a_missing_event_is_detected(run: Evidence, kind: str) -> None:
    found = judged(less(run, kind))
    assert found.verdict is Verdict.FAIL
    assert any(kind in violation.text for violation in found.violations)


def test_revenue_that_was_never_paid_is_detected(run: Evidence) -> None:
    rows = [row._replace(amount=row.amount + 1) if row.kind == "OrderPaid" else row for row in run.spark_counts]
    assert judged(replace(run, spark_counts=rows)).verdict is Verdict.FAIL


def test_a_decision_that_only_the_database_has_is_detected(run: Evidence) -> None:
    first = run.decisions[0]
    more = first._replace(request_id=identity(str(UUID(int=1))), position=first.position._replace(offset=10_000))
    assert judged(replace(run, decisions=[*run.decisions, more])).verdict is Verdict.FAIL


def test_counts_up_to_an_earlier_cut_are_compared_only_up_to_there_and_leave_the_verdict_unknown(
    run: Evidence,
) -> None:
    last = max(record.position for record in run.decision_events)
    record = next(each for each in run.decision_events if each.position == last)
    cuts = [
        row._replace(end=last.offset) if (row.topic, row.partition) == ("inventory.decisions", last.partition) else row
        for row in run.spark_cuts
    ]
    earlier = replace(run, spark_cuts=cuts)
    assert judged(earlier).verdict is Verdict.FAIL  # the counts include events beyond the cut
    found = judged(less(earlier, record.decision))
    assert found.verdict is Verdict.UNKNOWN
    assert not found.violations


def test_without_statistics_the_verdict_is_unknown() -> None:
    evidence = good_run()
    sources = evidence.sources | {Source.STATISTICS: SourceStatus(Source.STATISTICS, {}, ("there are no statistics",))}
    assert judged(replace(evidence, sources=sources, declared_off=frozenset())).verdict is Verdict.UNKNOWN
