"""Check money: our payments and the provider's log agree in both directions."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.verdicts import Findings, Subject

SIGNS = {"captured": 1, "refunded": -1}


def money_balances(evidence: Evidence, findings: Findings) -> None:
    """I14. For every order, captured minus refunded money is its amount if the order is paid, and 0 otherwise. The
    provider's log and our payments agree on every capture, void and refund. Captured money without a payment of ours
    has been refunded. A payment is opened once, then captured at most once, then refunded at most once."""
    ours = {payment.id: payment for payment in evidence.payments}
    orphans = frozenset(evidence.orphan_payments)
    orphaned: Counter[Id] = Counter()
    captured: dict[Id, int] = {}
    refunded: dict[Id, int] = {}
    lines_of: dict[Id, list[str]] = defaultdict(list)
    for line in evidence.provider_lines:
        findings.checked += 1
        payment = ours.get(line.payment_id)
        if payment is None and line.payment_id in orphans:
            orphaned[line.payment_id] += SIGNS.get(line.what, 0) * line.amount
        elif payment is None:
            findings.add_missing(f"the provider has {line.what} payment {line.payment_id}, which we do not know")
        elif not _may_follow(line.what, lines_of[line.payment_id]):
            before = ", ".join(lines_of[line.payment_id]) or "nothing"
            findings.add_violation(f"the provider has {line.what} after {before}", _of(payment.order_id))
        elif line.amount != payment.amount:
            findings.add_violation(
                f"the provider has {line.what} {line.amount}, but the payment is {payment.amount}",
                _of(payment.order_id),
            )
        lines_of[line.payment_id].append(line.what)
        if line.what == "captured":
            captured[line.payment_id] = line.amount
        elif line.what == "refunded":
            refunded[line.payment_id] = line.amount
    for payment in evidence.payments:
        findings.checked += 1
        subject = _of(payment.order_id)
        for done, lines, is_done in (
            ("captured", captured, payment.was_captured),
            ("refunded", refunded, payment.was_refunded),
        ):
            if is_done and payment.id not in lines:
                findings.add_violation(f"our payment is {done}, but the provider's log says otherwise", subject)
            elif not is_done and payment.id in lines:
                findings.add_missing(f"the provider has {done} a payment that we do not show as {done}", subject)
        if payment.state == "refunding":
            findings.add_missing("a refund is owed", subject)
        elif payment.state == "voided" and lines_of[payment.id] == ["opened"]:
            findings.add_violation("our payment is voided, but the provider still has it open", subject)
    net: Counter[Id] = Counter()
    for line in evidence.provider_lines:
        if line.payment_id in ours:
            net[ours[line.payment_id].order_id] += SIGNS.get(line.what, 0) * line.amount
    for orphan in orphans - {line.payment_id for line in evidence.provider_lines}:
        findings.add_violation(f"payment {orphan} is listed as an orphan, but the provider does not know it")
    for orphan, kept in orphaned.items():
        if kept:
            findings.add_missing(f"{kept} of payment {orphan}, which we do not know, have not been refunded")
    for order in evidence.orders:
        findings.checked += 1
        kept = net[order.id]
        if kept not in (0, order.amount):
            findings.add_missing(f"{kept} were kept for an order of {order.amount}", _of(order.id))
        elif (kept == order.amount) != (order.state == "PAID") and order.amount:
            findings.add_missing(f"the order is {order.state}, but {kept} were kept", _of(order.id))
    findings.facts["captured"] = sum(captured.values())
    findings.facts["refunded"] = sum(refunded.values())
    findings.facts["amount of paid orders"] = sum(order.amount for order in evidence.orders if order.state == "PAID")


def _may_follow(what: str, before: list[str]) -> bool:
    """Whether `what` is a valid next step for a payment with these steps."""
    if what == "opened":
        return not before
    return "opened" in before and what not in before and (what != "refunded" or "captured" in before)


def _of(order: Id) -> Subject:
    return Subject(order_id=order)
