"""Check orders: one for each reservation and no others, in valid states, ended in time."""

from __future__ import annotations

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.rows import RESERVED
from seckill.report.verdicts import Findings, Subject

ACCOUNT_OF = {
    "PENDING_PAYMENT": ("reserved",),
    "PAID": ("sold",),
    "EXPIRED": ("released",),
    "CANCELLED": ("released",),
    "REFUNDED": ("sold", "released"),
    "NOT_PLACED": ("released",),
}
"""The states that the units of an order may have, by the state of the order."""

MOVES = {
    "": ("PENDING_PAYMENT", "NOT_PLACED"),
    "PENDING_PAYMENT": ("PAID", "EXPIRED", "CANCELLED"),
    "PAID": ("REFUNDED",),
}
"""The transitions that an order may make."""

MONEY = {
    "open": ((False, False),),
    "voided": ((False, False),),
    "captured": ((True, False),),
    "refunding": ((True, False),),
    "refunded": ((True, True),),
}
"""Whether a payment was captured and refunded, by its state."""

GRACE_MS = 15_000
"""Expiry runs every half second and asks the payment provider first."""


def ledger_matches_orders(evidence: Evidence, findings: Findings) -> None:
    """I3. Every reservation in the ledger has its order and every order its reservation, and the units are held, sold
    or released as the state of the order requires."""
    holds = {hold.request_id: hold for hold in evidence.holds}
    reserved = {
        entry.request_id: entry for entry in evidence.ledger if entry.kind == "reserve" and entry.request_id is not None
    }
    for request in reserved.keys() | holds.keys() | evidence.order_by_request.keys():
        findings.checked += 1
        entry, hold, order = reserved.get(request), holds.get(request), evidence.order_by_request.get(request)
        subject = Subject(request, None if order is None else order.id)
        if entry is None:
            findings.add_violation("an order or a hold without a reservation in the ledger", subject)
            continue
        if hold is None:
            findings.add_violation("reserved in the ledger without a hold", subject)
            continue
        decision = evidence.decision_by_request.get(request)
        if decision is None or decision.decision != RESERVED:
            decided = "not at all" if decision is None else decision.decision
            findings.add_violation(f"reserved in the ledger, but decided {decided}", subject)
        elif decision.stock_version != entry.version:
            findings.add_violation(
                f"reserved at stock version {entry.version}, but decided at {decision.stock_version}", subject
            )
        if order is None:
            if hold.state != "released":
                findings.add_missing("reserved without an order", subject)
            continue
        if not entry.units == hold.quantity == order.quantity:
            findings.add_violation(
                f"{entry.units} units in the ledger, {hold.quantity} held, {order.quantity} ordered", subject
            )
        if (hold.user_id, hold.sale_id) != (order.user_id, order.sale_id):
            findings.add_violation(f"held for {hold.user_id}, but ordered by {order.user_id}", subject)
        if hold.state not in ACCOUNT_OF.get(order.state, ()):
            findings.add_missing(f"the order is {order.state}, but its units are {hold.state}", subject)
    for state in sorted({order.state for order in evidence.orders}):
        findings.facts[f"orders {state}"] = sum(order.state == state for order in evidence.orders)


def orders_follow_their_states(evidence: Evidence, findings: Findings) -> None:
    """I33. Every order starts once, makes only the transitions that its state table allows, and ends in its current
    state. The state of every payment matches its capture and refund, no payment stays open once its order has ended,
    and a payment is refunded only if it was late or its order was refunded."""
    last: dict[Id, str] = {}
    for change in evidence.transitions:
        findings.checked += 1
        before = last.get(change.order_id, "")
        if change.before != before or change.after not in MOVES.get(before, ()):
            state = before or "new"
            findings.add_violation(
                f"transition {change.before} → {change.after} of an order that was {state}",
                Subject(order_id=change.order_id),
            )
        if not before:
            order = evidence.order_by_id.get(change.order_id)
            if order is not None and order.placed_at_ms != change.at_ms:
                findings.add_violation(
                    f"placed at {order.placed_at_ms}, but its first transition is at {change.at_ms}",
                    Subject(None, order.id),
                )
        last[change.order_id] = change.after
    for order in evidence.orders:
        findings.checked += 1
        if last.get(order.id) != order.state:
            end = last.get(order.id, "without a state")
            findings.add_violation(
                f"is {order.state}, but its transitions leave it {end}", Subject(order.request_id, order.id)
            )
    for name in last.keys() - evidence.order_by_id.keys():
        findings.add_violation(f"transitions of order {name}, which does not exist")
    for payment in evidence.payments:
        findings.checked += 1
        if (payment.was_captured, payment.was_refunded) not in MONEY.get(payment.state, ()):
            money = f"captured is {payment.was_captured} and refunded is {payment.was_refunded}"
            findings.add_violation(f"a payment is {payment.state}, but {money}", Subject(None, payment.order_id))
        if payment.late and not payment.was_captured:
            findings.add_violation("a payment is late, but was never captured", Subject(None, payment.order_id))
        order = evidence.order_by_id.get(payment.order_id)
        if order is not None and payment.state == "open" and order.state != "PENDING_PAYMENT":
            findings.add_missing(f"the order is {order.state}, but a payment of it is open", Subject(None, order.id))
        elif order is not None and payment.was_captured:
            goes_back = payment.state in ("refunding", "refunded")
            if payment.late and not goes_back:
                findings.add_violation("a late payment was not refunded", Subject(None, order.id))
            elif not payment.late and goes_back != (order.state == "REFUNDED"):
                findings.add_violation(
                    f"its payment is {payment.state}, but the order is {order.state}", Subject(None, order.id)
                )


def unpaid_orders_end_in_time(evidence: Evidence, findings: Findings) -> None:
    """I20. No order waits for payment longer than its time to pay plus a grace period. How late the expired orders were
    ended is shown."""
    late = []
    orders = evidence.order_by_id
    for order in evidence.orders:
        findings.checked += 1
        over_ms = evidence.taken_at_ms - order.pay_before_ms
        if order.state == "PENDING_PAYMENT" and over_ms > GRACE_MS:
            findings.add_violation(f"unpaid {over_ms} ms after its time to pay", Subject(order.request_id, order.id))
    for change in evidence.transitions:
        if change.after == "EXPIRED" and change.order_id in orders:
            late_ms = change.at_ms - orders[change.order_id].pay_before_ms
            late.append(late_ms)
            if late_ms < 0:
                findings.add_violation(
                    f"expired {-late_ms} ms before its time to pay was over", Subject(order_id=change.order_id)
                )
    if late:
        findings.facts["expired"] = len(late)
        findings.facts["lateness p99, ms"] = sorted(late)[(len(late) * 99 - 1) // 100]
