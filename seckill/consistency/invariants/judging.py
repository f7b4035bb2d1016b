"""The table of invariants, and how a verdict follows from what a check has found."""

from __future__ import annotations

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants import (
    arrival,
    belonging,
    clocks,
    gateway_refusals,
    messages,
    money,
    operators,
    orders,
    prices,
    publishing,
    reading,
    refusals,
    requests,
    statistics,
    stock,
    telling,
    whole,
)
from seckill.consistency.verdicts import Found, Invariant, Judged, Verdict

INVARIANTS = (
    Invariant("I1", "no oversell at any prefix of the ledger", ("L",), stock.no_oversell),
    Invariant("I2", "conservation: every unit is accounted for", ("L",), stock.conservation),
    Invariant("I3", "ledger and orders agree, both ways", ("L", "O"), orders.ledger_is_orders),
    Invariant("I4", "the gate and the ledger know the same buyers", ("R", "L"), stock.gate_agrees),
    Invariant("I5", "no undersell", ("L", "O"), stock.no_undersell),
    Invariant("I6", "nobody was told “sold out” while there was enough", ("L", "O"), stock.no_false_sold_out),
    Invariant("I7", "no acknowledged request is lost", ("C", "K"), requests.none_lost),
    Invariant("I8", "no request that nobody sent", ("C", "K"), requests.no_phantom),
    Invariant("I9", "every request decided exactly once; stages tie", ("K", "L", "O"), requests.decided_once),
    Invariant("I10", "clients were told the truth", ("C", "K", "O"), telling.told_the_truth),
    Invariant("I11", "no offset is skipped", ("K", "O", "G"), reading.no_gap),
    Invariant("I12", "one active purchase for each user and sale", ("L",), stock.one_active_purchase),
    Invariant("I13", "one effect for each cause", ("K", "L", "O"), reading.one_effect),
    Invariant("I14", "money: captured − refunded is 0 or the amount", ("P", "O"), money.money_ties),
    Invariant("I15", "units come back at most once, never paid and released", ("L",), stock.returned_once),
    Invariant("I16", "one user's requests stay in order", ("C", "K"), arrival.one_users_order),
    Invariant("I17", "fair by arrival", ("K", "L", "O"), arrival.fair),
    Invariant("I18", "nothing admitted outside the window", ("K", "L"), arrival.inside_the_window),
    Invariant("I19", "nothing reserved past its deadline", ("K", "O"), arrival.before_the_deadline),
    Invariant("I20", "no unpaid order beyond its time", ("O",), orders.ended_in_time),
    Invariant("I21", "each message once, none for a loser", ("K", "O", "N"), telling.told_once),
    Invariant("I22", "statistics tie", ("S", "K", "O"), statistics.statistics_tie),
    Invariant("I23", "nothing hidden in a queue", ("K", "L", "O"), whole.nothing_hidden),
    Invariant("I24", "the evidence is whole and could have failed", (), whole.could_have_failed),
    Invariant("I25", "every amount is the declared price", ("K", "L", "O", "P"), prices.prices_hold),
    Invariant("I26", "what was done is what was published", ("K", "L", "O"), publishing.published_as_written),
    Invariant("I27", "everything belongs to its buyer", ("K", "L", "O", "P"), belonging.belongs_to_its_buyer),
    Invariant("I28", "inventory's refusals give the true reason", ("L", "O"), refusals.reasons_are_true),
    Invariant("I29", "the gateway's refusals were true", ("C", "K", "L", "O"), gateway_refusals.gateway_told_the_truth),
    Invariant("I30", "messages are right and in order", ("K", "O", "N"), messages.messages_are_right),
    Invariant("I31", "clocks agree, and nothing comes before its cause", ("K", "L", "O"), clocks.clocks_agree),
    Invariant("I32", "what operators did is in the books", ("L", "O"), operators.verbs_are_in_the_books),
    Invariant("I33", "orders and payments move as they may", ("O", "P"), orders.orders_move_as_they_may),
)


def judge(evidence: Evidence) -> list[Judged]:
    return [judge_one(invariant, evidence) for invariant in INVARIANTS]


def judge_one(invariant: Invariant, evidence: Evidence) -> Judged:
    """What is wrong fails; what is only missing fails once nothing is under way. Both need sources that are whole."""
    off = [letter for letter in invariant.needs if letter in evidence.off]
    if off:
        return Judged(invariant, Verdict.NOT_RUN, reasons=tuple(f"source {letter} is declared off" for letter in off))
    found = Found()
    invariant.check(evidence, found)
    reasons = list(found.unknown)
    broken = any(not evidence.sources[letter].is_whole for letter in invariant.needs)
    for letter in invariant.needs:
        source = evidence.sources[letter]
        reasons += [f"source {letter}: {fault}" for fault in source.faults]
        if not source.faults and not source.is_whole:
            reasons.append(f"source {letter} is empty")
    if found.missing and evidence.under_way:
        reasons += [f"not drained: {reason}" for reason in evidence.under_way]
    if not found.looked_at and not reasons:
        reasons.append("there was nothing to look at")
    violations = (*found.wrong, *found.missing)
    return Judged(
        invariant, _verdict(found, reasons, broken), found.looked_at, violations, tuple(dict.fromkeys(reasons)),
        found.facts,
    )  # fmt: skip


def _verdict(found: Found, reasons: list[str], broken: bool) -> Verdict:
    """From a source that is not whole nothing follows; from one that is, what is wrong is wrong, drained or not."""
    if found.wrong and not broken:
        return Verdict.FAIL
    if reasons:
        return Verdict.UNKNOWN
    return Verdict.FAIL if found.missing else Verdict.PASS
