"""Corruptions of what people saw, and of the evidence itself."""

from __future__ import annotations

from dataclasses import replace

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import Source
from seckill.consistency.selftest.spoiling import corruption, first, instead, last, stranger, without
from seckill.consistency.verdicts import Verdict


@corruption("I10", "a client was told that it is sold out, and he has it")
def told_falsely(evidence: Evidence) -> Evidence:
    sight = last(evidence.sights, lambda sight: sight.state == "PAID" and sight.status == 200)
    return replace(evidence, sights=instead(evidence.sights, sight, sight._replace(state="SOLD_OUT")))


@corruption("I10", "a client saw that it was paid, and then that it was not")
def told_backwards(evidence: Evidence) -> Evidence:
    sight = last(evidence.sights, lambda sight: sight.state == "PAID" and sight.status == 200)
    after = sight._replace(at_ms=sight.at_ms + 60_000, state="AWAITING_PAYMENT")
    return replace(evidence, sights=[*evidence.sights, after])


@corruption("I10", "a client saw another's purchase")
def told_another(evidence: Evidence) -> Evidence:
    sight = first(evidence.sights, lambda sight: sight.status == 200)
    return replace(evidence, sights=[*evidence.sights, sight._replace(user_id="somebody else")])


@corruption("I10", "what a buyer is shown is not what was decided")
def shown_falsely(evidence: Evidence) -> Evidence:
    outcome = first(evidence.outcomes, lambda outcome: outcome.state == "SOLD_OUT")
    return replace(evidence, outcomes=instead(evidence.outcomes, outcome, outcome._replace(state="RESERVED")))


@corruption("I13", "a sink has the effect of one message twice")
def effect_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, sink=[*evidence.sink, first(evidence.sink, lambda line: line.what == "effect")])


@corruption("I21", "a message that was called done never came")
def message_lost(evidence: Evidence) -> Evidence:
    return replace(evidence, sink=without(evidence.sink, first(evidence.sink, lambda line: line.what == "effect")))


@corruption("I21", "a message was never prepared")
def delivery_gone(evidence: Evidence) -> Evidence:
    return replace(evidence, deliveries=without(evidence.deliveries, first(evidence.deliveries)))


@corruption("I21", "a loser is congratulated")
def loser_told(evidence: Evidence) -> Evidence:
    line = first(evidence.sink, lambda line: line.what == "effect")
    return replace(evidence, sink=[*evidence.sink, line._replace(event_id=stranger(), user_id="nobody")])


@corruption("I23", "a delivery is due although everything is quiet")
def delivery_stuck(evidence: Evidence) -> Evidence:
    row = first(evidence.deliveries, lambda row: row.state == "done")
    return replace(evidence, deliveries=instead(evidence.deliveries, row, row._replace(state="due")))


@corruption("I22", "Spark has missed a purchase request")
def missed_by_spark(evidence: Evidence) -> Evidence:
    row = first(evidence.counted, lambda row: row.kind == "PurchaseRequested" and row.events > 0)
    return replace(evidence, counted=instead(evidence.counted, row, row._replace(events=row.events - 1)))


@corruption("I22", "Spark has counted an order's money twice")
def counted_twice(evidence: Evidence) -> Evidence:
    row = first(evidence.counted, lambda row: row.kind == "OrderPaid" and row.amount > 0)
    return replace(evidence, counted=instead(evidence.counted, row, row._replace(amount=2 * row.amount)))


@corruption("I22", "no run of Spark has read the topics to their end", Verdict.UNKNOWN)
def not_counted_to_the_end(evidence: Evidence) -> Evidence:
    row = first(evidence.counted_to, lambda row: row.end > row.start)
    runs = [each._replace(end=row.start) if each[1:3] == row[1:3] else each for each in evidence.counted_to]
    kept = [each for each in evidence.counted if (each.topic, each.partition) != (row.topic, row.partition)]
    return replace(evidence, counted_to=runs, counted=kept)


def _with(evidence: Evidence, source: Source) -> dict[str, Source]:
    return {**evidence.sources, source.letter: source}


@corruption("I24", "a worker's log was cut off", Verdict.UNKNOWN)
def log_cut_off(evidence: Evidence) -> Evidence:
    source = replace(evidence.sources["C"], faults=("rush.jsonl: cut off, it has no closing line",))
    return replace(evidence, sources=_with(evidence, source))


@corruption("I7", "the crowd's log is empty", Verdict.UNKNOWN)
def log_empty(evidence: Evidence) -> Evidence:
    return replace(evidence, sources=_with(evidence, Source("C", {"attempts": 0})), attempts=[], sights=[])


@corruption("I4", "the gate has nothing of its epoch", Verdict.UNKNOWN)
def gate_flushed(evidence: Evidence) -> Evidence:
    return replace(evidence, gates=[gate._replace(free=None, granted={}) for gate in evidence.gates])


@corruption("I14", "the provider's log is not there", Verdict.UNKNOWN)
def provider_silent(evidence: Evidence) -> Evidence:
    source = Source("P", {}, ("provider.jsonl: No such file or directory",))
    captured = [payment._replace(was_captured=False) for payment in evidence.payments]
    return replace(evidence, sources=_with(evidence, source), provider=[], payments=captured)


@corruption("I24", "a fault that was planned never happened", Verdict.UNKNOWN)
def fault_missing(evidence: Evidence) -> Evidence:
    return replace(evidence, faults_planned=("redis-flushall",), injected=[])


@corruption("I24", "nobody competed for the units", Verdict.UNKNOWN)
def no_contest(evidence: Evidence) -> Evidence:
    return replace(evidence, decided=[row for row in evidence.decided if row.decision == "RESERVED"])


@corruption("I24", "everything is empty", Verdict.UNKNOWN)
def nothing_at_all(evidence: Evidence) -> Evidence:
    return Evidence({letter: Source(letter, {}) for letter in evidence.sources}, evidence.taken_at_ms, evidence.off)
