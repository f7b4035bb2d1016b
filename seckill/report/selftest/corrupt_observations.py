"""Corruptions of what buyers saw, and of the evidence itself."""

from __future__ import annotations

from dataclasses import replace

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.selftest.corruptions import corruption, first, last, unknown_id, with_replaced, without_one
from seckill.report.verdicts import Verdict


@corruption("I10", "a buyer with a paid order was shown SOLD_OUT")
def told_falsely(evidence: Evidence) -> Evidence:
    poll = last(evidence.polls, lambda poll: poll.state == "PAID" and poll.status == 200)
    return replace(evidence, polls=with_replaced(evidence.polls, poll, poll._replace(state="SOLD_OUT")))


@corruption("I10", "a buyer saw PAID and later AWAITING_PAYMENT")
def told_backwards(evidence: Evidence) -> Evidence:
    poll = last(evidence.polls, lambda poll: poll.state == "PAID" and poll.status == 200)
    after = poll._replace(at_ms=poll.at_ms + 60_000, state="AWAITING_PAYMENT")
    return replace(evidence, polls=[*evidence.polls, after])


@corruption("I10", "a user saw the purchase of another user")
def told_another(evidence: Evidence) -> Evidence:
    poll = first(evidence.polls, lambda poll: poll.status == 200)
    return replace(evidence, polls=[*evidence.polls, poll._replace(user_id="somebody else")])


@corruption("I10", "the gateway shows another outcome than the decision")
def shown_falsely(evidence: Evidence) -> Evidence:
    outcome = first(evidence.outcomes, lambda outcome: outcome.state == "SOLD_OUT")
    return replace(evidence, outcomes=with_replaced(evidence.outcomes, outcome, outcome._replace(state="RESERVED")))


@corruption("I13", "a sink received one message twice")
def effect_twice(evidence: Evidence) -> Evidence:
    return replace(
        evidence, sink_lines=[*evidence.sink_lines, first(evidence.sink_lines, lambda line: line.what == "effect")]
    )


@corruption("I21", "a delivery is marked as done, but the sink never received it")
def message_lost(evidence: Evidence) -> Evidence:
    return replace(
        evidence,
        sink_lines=without_one(evidence.sink_lines, first(evidence.sink_lines, lambda line: line.what == "effect")),
    )


@corruption("I21", "an order event has no delivery")
def delivery_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, deliveries=without_one(evidence.deliveries, first(evidence.deliveries)))


@corruption("I21", "a user without an order gets a message")
def message_without_order(evidence: Evidence) -> Evidence:
    line = first(evidence.sink_lines, lambda line: line.what == "effect")
    return replace(evidence, sink_lines=[*evidence.sink_lines, line._replace(event_id=unknown_id(), user_id="nobody")])


@corruption("I23", "a delivery is still due although the run is idle")
def delivery_stuck(evidence: Evidence) -> Evidence:
    row = first(evidence.deliveries, lambda row: row.state == "done")
    return replace(evidence, deliveries=with_replaced(evidence.deliveries, row, row._replace(state="due")))


@corruption("I22", "Spark missed a purchase request")
def missed_by_spark(evidence: Evidence) -> Evidence:
    row = first(evidence.spark_counts, lambda row: row.kind == "PurchaseRequested" and row.events > 0)
    return replace(
        evidence, spark_counts=with_replaced(evidence.spark_counts, row, row._replace(events=row.events - 1))
    )


@corruption("I22", "Spark counted the amount of an order twice")
def counted_twice(evidence: Evidence) -> Evidence:
    row = first(evidence.spark_counts, lambda row: row.kind == "OrderPaid" and row.amount > 0)
    return replace(
        evidence, spark_counts=with_replaced(evidence.spark_counts, row, row._replace(amount=2 * row.amount))
    )


@corruption("I22", "no Spark run has read the topics to their end", Verdict.UNKNOWN)
def not_counted_to_the_end(evidence: Evidence) -> Evidence:
    row = first(evidence.spark_cuts, lambda row: row.end > row.start)
    runs = [each._replace(end=row.start) if each[1:3] == row[1:3] else each for each in evidence.spark_cuts]
    without_matching = [
        each for each in evidence.spark_counts if (each.topic, each.partition) != (row.topic, row.partition)
    ]
    return replace(evidence, spark_cuts=runs, spark_counts=without_matching)


def _with(evidence: Evidence, source: SourceStatus) -> dict[Source, SourceStatus]:
    return {**evidence.sources, source.source: source}


@corruption("I24", "the log of a crowd worker was cut off", Verdict.UNKNOWN)
def log_cut_off(evidence: Evidence) -> Evidence:
    source = replace(evidence.sources[Source.CROWD], faults=("rush.jsonl: cut off, it has no closing line",))
    return replace(evidence, sources=_with(evidence, source))


@corruption("I7", "the crowd's log is empty", Verdict.UNKNOWN)
def log_empty(evidence: Evidence) -> Evidence:
    return replace(
        evidence, sources=_with(evidence, SourceStatus(Source.CROWD, {"attempts": 0})), attempts=[], polls=[]
    )


@corruption("I4", "the gate has no keys for its epoch", Verdict.UNKNOWN)
def gate_flushed(evidence: Evidence) -> Evidence:
    return replace(evidence, gates=[gate._replace(free=None, granted={}) for gate in evidence.gates])


@corruption("I14", "the provider's log is missing", Verdict.UNKNOWN)
def provider_silent(evidence: Evidence) -> Evidence:
    source = SourceStatus(Source.PAYMENTS, {}, ("provider.jsonl: No such file or directory",))
    captured = [payment._replace(was_captured=False) for payment in evidence.payments]
    return replace(evidence, sources=_with(evidence, source), provider_lines=[], payments=captured)


@corruption("I24", "a planned fault never happened", Verdict.UNKNOWN)
def fault_missing(evidence: Evidence) -> Evidence:
    return replace(evidence, planned_faults=("redis-flushall",), injected_faults=[])


@corruption("I24", "no buyers competed for the units", Verdict.UNKNOWN)
def no_contest(evidence: Evidence) -> Evidence:
    return replace(evidence, decisions=[row for row in evidence.decisions if row.decision == "RESERVED"])


@corruption("I24", "all sources are empty", Verdict.UNKNOWN)
def nothing_at_all(evidence: Evidence) -> Evidence:
    return Evidence(
        {source: SourceStatus(source, {}) for source in evidence.sources}, evidence.taken_at_ms, evidence.declared_off
    )
