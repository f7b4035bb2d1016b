"""Orders: one for each reservation, no other, and none waits for ever."""

from __future__ import annotations

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
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

MOVES = {
    "": ("PENDING_PAYMENT", "NOT_PLACED"),
    "PENDING_PAYMENT": ("PAID", "EXPIRED", "CANCELLED"),
    "PAID": ("REFUNDED",),
}
"""Where an order may go from each state."""

MONEY = {
    "open": ((False, False),),
    "voided": ((False, False),),
    "captured": ((True, False),),
    "refunding": ((True, False),),
    "refunded": ((True, True),),
}
"""Whether a payment was captured and refunded, by its state."""

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
        elif decision.stock_version != entry.version:
            found.say_wrong(f"reserved at version {entry.version}, decided at {decision.stock_version}", subject)
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


def orders_move_as_they_may(evidence: Evidence, found: Found) -> None:
    """I33. Each order begins once and moves only as orders may, from where it was left, to the state it is in; a
    payment is in the state that its capture and refund say, and only a late one goes back while its order is not
    refunded."""
    last: dict[Id, str] = {}
    for change in evidence.transitions:
        found.looked_at += 1
        before = last.get(change.order_id, "")
        if change.before != before or change.after not in MOVES.get(before, ()):
            now = before or "new"
            found.say_wrong(
                f"moved {change.before} → {change.after}, and it was {now}", Subject(order_id=change.order_id)
            )
        if not before:
            order = evidence.order_by_id.get(change.order_id)
            if order is not None and order.placed_at_ms != change.at_ms:
                found.say_wrong(f"placed at {order.placed_at_ms}, begun at {change.at_ms}", Subject(None, order.id))
        last[change.order_id] = change.after
    for order in evidence.orders:
        found.looked_at += 1
        if last.get(order.id) != order.state:
            was = last.get(order.id, "nowhere")
            found.say_wrong(f"is {order.state}, and its history leaves it {was}", Subject(order.request_id, order.id))
    for name in last.keys() - evidence.order_by_id.keys():
        found.say_wrong(f"a history of order {name}, which does not exist")
    for payment in evidence.payments:
        found.looked_at += 1
        if (payment.was_captured, payment.was_refunded) not in MONEY.get(payment.state, ()):
            did = f"captured {payment.was_captured}, refunded {payment.was_refunded}"
            found.say_wrong(f"a payment is {payment.state}: {did}", Subject(None, payment.order_id))
        order = evidence.order_by_id.get(payment.order_id)
        if order is not None and payment.was_captured:
            goes_back = payment.state in ("refunding", "refunded")
            if payment.late and not goes_back:
                found.say_wrong("a late payment is kept", Subject(None, order.id))
            elif not payment.late and goes_back != (order.state == "REFUNDED"):
                found.say_wrong(f"its payment is {payment.state}, the order {order.state}", Subject(None, order.id))


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
