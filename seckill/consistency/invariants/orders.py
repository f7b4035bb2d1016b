"""Orders: one for each reservation, and no other."""

from __future__ import annotations

from seckill.consistency.evidence import RESERVED, Evidence
from seckill.consistency.verdicts import Found, Subject

ACCOUNT_OF = {
    "PENDING_PAYMENT": ("reserved",),
    "PAID": ("sold",),
    "EXPIRED": ("released",),
    "CANCELLED": ("released",),
    "REFUNDED": ("sold", "released"),
}
"""Where the units of an order stand, by its state."""


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
