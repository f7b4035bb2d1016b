"""Money: what the provider says and what we say, both ways; nobody pays for nothing, nobody gets it for nothing."""

from __future__ import annotations

from collections import Counter, defaultdict

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.verdicts import Found, Subject

SIGNS = {"captured": 1, "refunded": -1}


def money_ties(evidence: Evidence, found: Found) -> None:
    """I14. Of each order, captured − refunded is its amount if it is paid, and nothing else; the provider's log and our
    payments agree on every capture and every refund. Money of nobody's payment (an orphan, once it is known as one) has
    gone back. A payment is opened first, captured once, and refunded once after that."""
    ours = {payment.id: payment for payment in evidence.payments}
    orphans = frozenset(evidence.orphans)
    orphaned: Counter[Id] = Counter()
    captured: dict[Id, int] = {}
    refunded: dict[Id, int] = {}
    lines_of: dict[Id, list[str]] = defaultdict(list)
    for line in evidence.provider:
        found.looked_at += 1
        payment = ours.get(line.payment_id)
        if payment is None and line.payment_id in orphans:
            orphaned[line.payment_id] += SIGNS.get(line.what, 0) * line.amount
        elif payment is None:
            found.say_missing(f"the provider has {line.what} payment {line.payment_id}, which is none of ours")
        elif not _may_follow(line.what, lines_of[line.payment_id]):
            before = ", ".join(lines_of[line.payment_id]) or "nothing"
            found.say_wrong(f"the provider has {line.what} after {before}", _of(payment.order_id))
        elif line.amount != payment.amount:
            found.say_wrong(f"{line.what} {line.amount}, we asked for {payment.amount}", _of(payment.order_id))
        lines_of[line.payment_id].append(line.what)
        if line.what == "captured":
            captured[line.payment_id] = line.amount
        elif line.what == "refunded":
            refunded[line.payment_id] = line.amount
    for payment in evidence.payments:
        found.looked_at += 1
        subject = _of(payment.order_id)
        for done, lines, said in (
            ("captured", captured, payment.was_captured),
            ("refunded", refunded, payment.was_refunded),
        ):
            if said and payment.id not in lines:
                found.say_wrong(f"we say {done}, the provider does not", subject)
            elif not said and payment.id in lines:
                found.say_missing(f"the provider says {done}, we do not", subject)
        if payment.state == "refunding":
            found.say_missing("a refund is owed", subject)
    net: Counter[Id] = Counter()
    for line in evidence.provider:
        if line.payment_id in ours:
            net[ours[line.payment_id].order_id] += SIGNS.get(line.what, 0) * line.amount
    for orphan in orphans - {line.payment_id for line in evidence.provider}:
        found.say_wrong(f"payment {orphan} is called an orphan, and the provider knows nothing of it")
    for orphan, kept in orphaned.items():
        if kept:
            found.say_missing(f"{kept} of payment {orphan}, which is none of ours, have not gone back")
    for order in evidence.orders:
        found.looked_at += 1
        kept = net[order.id]
        if kept not in (0, order.amount):
            found.say_missing(f"{kept} were kept, of an order over {order.amount}", _of(order.id))
        elif (kept == order.amount) != (order.state == "PAID") and order.amount:
            found.say_missing(f"the order is {order.state} and {kept} were kept", _of(order.id))
    found.facts["captured"] = sum(captured.values())
    found.facts["refunded"] = sum(refunded.values())
    found.facts["of paid orders"] = sum(order.amount for order in evidence.orders if order.state == "PAID")


def _may_follow(what: str, before: list[str]) -> bool:
    """A payment is opened first and once, is captured and refunded once, and refunded only if it was captured."""
    if what == "opened":
        return not before
    return "opened" in before and what not in before and (what != "refunded" or "captured" in before)


def _of(order: Id) -> Subject:
    return Subject(order_id=order)
