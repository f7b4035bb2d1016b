"""Check the gateway's refusals: the reason was true when it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.invariants.clocks import SKEW_MS
from seckill.report.invariants.outages import find_outages, is_outage
from seckill.report.invariants.refusal_reasons import JUDGES, Call, reason_against
from seckill.report.invariants.sale_history import SaleHistory
from seckill.report.rows import Attempt, OtherCall
from seckill.report.verdicts import Findings, Subject


def gateway_refusals_were_true(evidence: Evidence, findings: Findings) -> None:
    """I29. Every refusal of the gateway names a reason, and the reason was true at that time: sold out, closed, paused,
    not open yet, unknown sale, too many requests, used ticket or key, queue too long. Purchases are not refused for
    long without a fault that explains it. An accepted purchase came with a valid ticket of its own buyer, and an
    accepted payment or cancellation was carried out."""
    sale = SaleHistory(evidence)
    counts: Counter[str] = Counter()
    calls: list[Call] = [*evidence.attempts, *evidence.other_calls]
    for call in calls:
        findings.checked += 1
        if call.status in (200, 201, 202):
            continue
        kind = call.problem or f"status {call.status}"
        counts[kind if call.status else "no answer"] += 1
        if is_outage(call) and call.problem not in JUDGES:
            continue
        why = reason_against(sale, call)
        if why:
            findings.add_violation(f"{_what(call)} was refused with {call.status} {call.problem}, but {why}", _of(call))
    _check_accepted(evidence, sale, findings)
    for outage in find_outages(evidence):
        findings.add_violation(str(outage))
    _check_order_calls(evidence, findings)
    for kind, count in counts.most_common():
        findings.facts[kind] = count


def _check_accepted(evidence: Evidence, sale: SaleHistory, findings: Findings) -> None:
    """An accepted purchase needs a ticket issued to its user for this sale, not expired, and not used with another
    key."""
    first: dict[tuple[str, int, str], Attempt] = {}
    for attempt in sorted(evidence.attempts, key=lambda attempt: attempt.at_ms):
        key = (attempt.user_id, attempt.sale_id, attempt.key)
        is_known = key in first or attempt.status != 202
        first.setdefault(key, attempt)
        if is_known or attempt.ticket is None:
            continue  # a repeated key gets the first answer again, whatever ticket comes with it
        given = sale.tickets.get(attempt.ticket)
        why = ""
        if given is None or (given.user_id, given.sale_id) != key[:2]:
            why = "with a ticket that was not issued to its user for this sale"
        elif given.expires_at_ms is not None and given.expires_at_ms < attempt.at_ms - SKEW_MS:
            why = f"{attempt.at_ms - given.expires_at_ms} ms after its ticket had expired"
        elif sale.accepted_keys[attempt.ticket] - {key[2]}:
            why = "with a used ticket"
        if why:
            findings.add_violation(f"a purchase was accepted {why}", _of(attempt))


def _check_order_calls(evidence: Evidence, findings: Findings) -> None:
    """Accepted payments and cancellations were carried out."""
    paying = {payment.order_id for payment in evidence.payments}
    cancelled = {change.order_id for change in evidence.transitions if change.after == "CANCELLED"}
    done: Mapping[str, set[Id]] = {"pay": paying, "cancel": cancelled}
    for call in evidence.other_calls:
        if call.status != 202 or call.what not in done:
            continue
        order = evidence.order_by_id.get(call.order_id) if call.order_id is not None else None
        if order is None or order.user_id != call.user_id:
            findings.add_violation(f"{call.what} was accepted for an order of another user", _of(call))
        elif order.id not in done[call.what]:
            findings.add_missing(f"{call.what} was accepted but not carried out", _of(call))


def _what(call: Call) -> str:
    return "a purchase" if isinstance(call, Attempt) else f"a call ({call.what})"


def _of(call: Call) -> Subject:
    return Subject(None, call.order_id if isinstance(call, OtherCall) else None, call.user_id)
