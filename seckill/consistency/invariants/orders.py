"""Orders: one for each reservation, no other, and none waits for ever."""

from __future__ import annotations

from seckill.consistency.evidence import Evidence
from seckill.consistency.rows import RESERVED
from seckill.consistency.verdicts import Found, Subject

ACCOUNT_OF = {
    "PENDING_PAYMENT": ("reserved",),
    "PAID": ("sold",),
    "EXPIRED": ("released",),
    "CANCELLED": ("released",),
    "REFUNDED": ("sold", "released"),
    "NOT_PLACED": ("released",),
}
"""Where the units of an order stand, by its state."""

GRACE_MS = 15_000
"""The sweep looks every half second, and asks the provider first."""


def ledger_is_orders(evidence: Evidence, found: Found) -> None:
    """I3. Ledger and orders, joined both ways by request: each reservation has its order, each order its reservation,
    and the units stand where the order's state says."""
    holds = {hold.request_id: hold for hold in evidence.holds}
    reserved = {
        entry.request_id: entry for entry in evidence.ledger if entry.kind == "reserve" and entry.request_id is not None
    }
    for request in reserved.keys() | holds.keys() | evidence.order_of.keys():
        found.looked_at += 1
        entry, hold, order = reserved.get(request), holds.get(request), evidence.order_of.get(request)
        subject = Subject(request, None if order is None else order.id)
        if entry is None:
            found.say_wrong("an order or a hold, and the ledger has no reservation", subject)
            continue
        if hold is None:
            found.say_wrong("reserved in the ledger, and there is no hold", subject)
            continue
        decision = evidence.decision_of.get(request)
        if decision is None or decision.decision != RESERVED:
            said = "nothing" if decision is None else decision.decision
            found.say_wrong(f"reserved in the ledger, and decided {said}", subject)
        if order is None:
            if hold.state != "released":
                found.say_missing("reserved, and there is no order", subject)
            continue
        if not entry.units == hold.quantity == order.quantity:
            found.say_wrong(
                f"{entry.units} units in the ledger, {hold.quantity} held, {order.quantity} ordered", subject
            )
        if (hold.user_id, hold.sale_id) != (order.user_id, order.sale_id):
            found.say_wrong(f"held for {hold.user_id}, ordered by {order.user_id}", subject)
        if hold.state not in ACCOUNT_OF.get(order.state, ()):
            found.say_missing(f"the order is {order.state}, its units are {hold.state}", subject)
    for state in sorted({order.state for order in evidence.orders}):
        found.facts[f"orders {state}"] = sum(order.state == state for order in evidence.orders)


def ended_in_time(evidence: Evidence, found: Found) -> None:
    """I20. No order waits for payment longer than its time and a grace; how late the others were ended is told."""
    late = []
    orders = evidence.order_by_id
    for order in evidence.orders:
        found.looked_at += 1
        over_ms = evidence.taken_at_ms - order.pay_before_ms
        if order.state == "PENDING_PAYMENT" and over_ms > GRACE_MS:
            found.say_wrong(f"unpaid {over_ms} ms after its time", Subject(order.request_id, order.id))
    for change in evidence.transitions:
        if change.after == "EXPIRED" and change.order_id in orders:
            late_ms = change.at_ms - orders[change.order_id].pay_before_ms
            late.append(late_ms)
            if late_ms < 0:
                found.say_wrong(f"expired {-late_ms} ms before its time", Subject(order_id=change.order_id))
    if late:
        found.facts["expired"] = len(late)
        found.facts["lateness p99, ms"] = sorted(late)[(len(late) * 99 - 1) // 100]
