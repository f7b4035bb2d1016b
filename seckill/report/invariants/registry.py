"""The table of invariants, and how the findings of a check lead to a verdict."""

from __future__ import annotations

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source
from seckill.report.invariants import (
    buyer_answers,
    clocks,
    completeness,
    consumption,
    gateway_refusals,
    messages,
    money,
    operators,
    ordering,
    orders,
    ownership,
    prices,
    publishing,
    refusals,
    requests,
    statistics,
    stock,
)
from seckill.report.verdicts import Findings, Invariant, Judgement, Verdict

CROWD, TOPICS, GATE, STOCK, ORDERS = Source.CROWD, Source.TOPICS, Source.GATE, Source.STOCK, Source.ORDERS
PAYMENTS, MESSAGES, COMMITS, STATISTICS = Source.PAYMENTS, Source.MESSAGES, Source.COMMITS, Source.STATISTICS

INVARIANTS = (
    Invariant("I1", "no oversell after any ledger entry", (STOCK,), stock.no_oversell),
    Invariant("I2", "every unit is accounted for", (STOCK,), stock.units_are_conserved),
    Invariant("I3", "ledger and orders match in both directions", (STOCK, ORDERS), orders.ledger_matches_orders),
    Invariant("I4", "the gate and the ledger agree on who holds units", (GATE, STOCK), stock.gate_matches_ledger),
    Invariant("I5", "no undersell", (STOCK, ORDERS), stock.no_undersell),
    Invariant(
        "I6", "no request was refused as sold out while units were available", (STOCK, ORDERS), stock.no_false_sold_out
    ),
    Invariant("I7", "no acknowledged request is lost", (CROWD, TOPICS), requests.no_request_lost),
    Invariant("I8", "every request in the log was sent by a buyer", (CROWD, TOPICS), requests.no_phantom_request),
    Invariant("I9", "every request is decided exactly once", (TOPICS, STOCK, ORDERS), requests.decided_once),
    Invariant("I10", "buyers were shown the truth", (CROWD, TOPICS, ORDERS), buyer_answers.buyers_saw_the_truth),
    Invariant("I11", "no offset is skipped", (TOPICS, ORDERS, COMMITS), consumption.no_offset_skipped),
    Invariant("I12", "at most one active purchase per user and sale", (STOCK,), stock.one_active_purchase),
    Invariant("I13", "every cause has one effect", (TOPICS, STOCK, ORDERS), consumption.one_effect_per_cause),
    Invariant("I14", "captured minus refunded is 0 or the order's amount", (PAYMENTS, ORDERS), money.money_balances),
    Invariant(
        "I15", "units are returned at most once, and never both paid and released", (STOCK,), stock.returned_once
    ),
    Invariant("I16", "each user's requests stay in order", (CROWD, TOPICS), ordering.user_order_kept),
    Invariant("I17", "first come, first served", (TOPICS, STOCK, ORDERS), ordering.served_in_arrival_order),
    Invariant(
        "I18", "nothing is admitted outside the sale's window", (TOPICS, STOCK), ordering.admitted_inside_the_window
    ),
    Invariant("I19", "nothing is reserved after its deadline", (TOPICS, ORDERS), ordering.reserved_before_the_deadline),
    Invariant("I20", "no order stays unpaid beyond its time to pay", (ORDERS,), orders.unpaid_orders_end_in_time),
    Invariant(
        "I21",
        "every message is delivered once, and only for an order",
        (TOPICS, ORDERS, MESSAGES),
        buyer_answers.messages_once,
    ),
    Invariant(
        "I22",
        "Spark's statistics match the topics and the database",
        (STATISTICS, TOPICS, ORDERS),
        statistics.statistics_match,
    ),
    Invariant("I23", "no work is stuck in a queue", (TOPICS, STOCK, ORDERS), completeness.no_work_stuck),
    Invariant("I24", "the evidence is complete and could have shown a failure", (), completeness.could_have_failed),
    Invariant(
        "I25",
        "every amount is quantity times the declared price",
        (TOPICS, STOCK, ORDERS, PAYMENTS),
        prices.amounts_match_prices,
    ),
    Invariant("I26", "published events match the tables", (TOPICS, STOCK, ORDERS), publishing.events_match_tables),
    Invariant(
        "I27",
        "everything belongs to the buyer who requested it",
        (TOPICS, STOCK, ORDERS, PAYMENTS),
        ownership.ownership_is_kept,
    ),
    Invariant("I28", "inventory's refusals state the true reason", (STOCK, ORDERS), refusals.reasons_are_true),
    Invariant(
        "I29",
        "the gateway's refusals were true",
        (CROWD, TOPICS, STOCK, ORDERS),
        gateway_refusals.gateway_refusals_were_true,
    ),
    Invariant("I30", "messages are correct and in order", (TOPICS, ORDERS, MESSAGES), messages.messages_are_correct),
    Invariant("I31", "clocks agree, and nothing precedes its cause", (TOPICS, STOCK, ORDERS), clocks.clocks_agree),
    Invariant(
        "I32", "operator actions are reflected in the tables", (STOCK, ORDERS), operators.operator_actions_took_effect
    ),
    Invariant(
        "I33", "orders and payments follow their state tables", (ORDERS, PAYMENTS), orders.orders_follow_their_states
    ),
)


def judge_invariants(evidence: Evidence) -> list[Judgement]:
    return [judge_invariant(invariant, evidence) for invariant in INVARIANTS]


def judge_invariant(invariant: Invariant, evidence: Evidence) -> Judgement:
    """A violation fails. Something missing fails once the run has drained. Both require complete sources."""
    off = [source for source in invariant.needs if source in evidence.declared_off]
    if off:
        reasons = tuple(f"source {source} is declared off" for source in off)
        return Judgement(invariant, Verdict.NOT_RUN, reasons=reasons)
    findings = Findings()
    invariant.check(evidence, findings)
    reasons = tuple(dict.fromkeys(_reasons(invariant, evidence, findings)))
    are_sources_complete = all(evidence.sources[source].is_complete for source in invariant.needs)
    return Judgement(
        invariant,
        _verdict(findings, bool(reasons), are_sources_complete),
        findings.checked,
        (*findings.violations, *findings.missing),
        reasons,
        findings.facts,
    )


def _reasons(invariant: Invariant, evidence: Evidence, findings: Findings) -> list[str]:
    """Why the check could not answer everything."""
    reasons = list(findings.unknown)
    for source in invariant.needs:
        status = evidence.sources[source]
        reasons += [f"source {source}: {fault}" for fault in status.faults]
        if not status.faults and not status.is_complete:
            reasons.append(f"source {source} is empty")
    if findings.missing and evidence.unfinished:
        reasons += [f"not drained: {reason}" for reason in evidence.unfinished]
    if not findings.checked and not reasons:
        reasons.append("there was nothing to check")
    return reasons


def _verdict(findings: Findings, has_reasons: bool, are_sources_complete: bool) -> Verdict:
    """An incomplete source proves nothing. With complete sources a violation stands even if the run has not drained."""
    if findings.violations and are_sources_complete:
        return Verdict.FAIL
    if has_reasons:
        return Verdict.UNKNOWN
    return Verdict.FAIL if findings.missing else Verdict.PASS
