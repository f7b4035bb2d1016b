"""Belonging: everything that follows from a request is of its buyer, its sale, its article, and as many units."""

from __future__ import annotations

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.rows import RESERVED
from seckill.consistency.verdicts import Found, Subject


def belongs_to_its_buyer(evidence: Evidence, found: Found) -> None:
    """I27. Hold, ledger entries, order, payments and what is shown are of the user, sale, article and quantity that
    were decided, and name the place of the request in the log and the decision that they rest on."""
    stocks = {stock.id: stock for stock in evidence.stocks}
    for hold in evidence.holds:
        found.looked_at += 1
        row, stock = evidence.decision_of.get(hold.request_id), stocks.get(hold.stock_id)
        if row is None:
            continue  # I3 says so
        subject = Subject(hold.request_id)
        mine = (hold.user_id, hold.sale_id, hold.quantity)
        if mine != (row.user_id, row.sale_id, row.quantity):
            found.say_wrong(
                f"held: {_named(*mine)}; decided: {_named(row.user_id, row.sale_id, row.quantity)}", subject
            )
        if stock is None or (stock.sale_id, stock.sku) != (row.sale_id, row.sku):
            found.say_wrong(f"held of another article than {row.sku} of sale {row.sale_id}", subject)
        if hold.origin is not None and hold.origin != row.place:
            found.say_wrong(f"held for a request at {hold.origin}, decided at {row.place}", subject)
        for entry in evidence.entries_of.get(hold.request_id, ()):
            if entry.stock_id != hold.stock_id:
                found.say_wrong(f"held of stock {hold.stock_id}, posted to stock {entry.stock_id}", subject)
    decisions = {said.request_id: said.event_id for said in evidence.decisions_said if said.decision == RESERVED}
    for order in evidence.orders:
        found.looked_at += 1
        row, subject = evidence.decision_of.get(order.request_id), Subject(order.request_id, order.id)
        if row is None:
            continue
        mine = (order.user_id, order.sale_id, order.quantity)
        if mine != (row.user_id, row.sale_id, row.quantity) or (order.sku and order.sku != row.sku):
            wanted = _named(row.user_id, row.sale_id, row.quantity)
            found.say_wrong(f"ordered: {_named(*mine)} {order.sku}; decided: {wanted} {row.sku}", subject)
        if order.origin is not None and order.origin != row.place:
            found.say_wrong(f"ordered for a request at {order.origin}, decided at {row.place}", subject)
        if order.cause is not None and order.cause != decisions.get(order.request_id, order.cause):
            found.say_wrong("the order rests on another decision than the one that was published", subject)
    _payments(evidence, found)
    _outcomes(evidence, found)


def _payments(evidence: Evidence, found: Found) -> None:
    ours = {payment.id: payment for payment in evidence.payments}
    for line in evidence.provider:
        payment = ours.get(line.payment_id)
        if payment is not None and line.order_id is not None:
            found.looked_at += 1
            if line.order_id != payment.order_id:
                found.say_wrong(
                    f"the provider has payment {payment.id} for order {line.order_id}",
                    Subject(order_id=payment.order_id),
                )
    for back in evidence.callbacks:
        found.looked_at += 1
        payment = ours.get(back.payment_id)
        if payment is None:
            found.say_wrong(f"a callback about payment {back.payment_id}, which does not exist")
        elif back.kind == "captured" and not payment.was_captured:
            found.say_missing(
                f"the provider called back: {back.kind}; the payment is not", Subject(None, payment.order_id)
            )


def _outcomes(evidence: Evidence, found: Found) -> None:
    for shown in evidence.outcomes:
        found.looked_at += 1
        row, order = evidence.decision_of.get(shown.request_id), evidence.order_of.get(shown.request_id)
        subject = Subject(shown.request_id)
        if row is not None and shown.user_id != row.user_id:
            found.say_wrong(f"shown to {shown.user_id}, and it is {row.user_id}'s", subject)
        if row is not None and shown.sale_id not in (None, row.sale_id):
            found.say_wrong(f"shown as of sale {shown.sale_id}, and it is of sale {row.sale_id}", subject)
        if shown.order_id is not None and (order is None or order.id != shown.order_id):
            found.say_missing(f"shown with order {shown.order_id}, which is not its own", subject)
        elif shown.order_id is None and order is not None and shown.sale_id is not None:
            found.say_missing("shown without its order", subject)
        if order is not None and shown.pay_before_ms is not None and abs(shown.pay_before_ms - order.pay_before_ms) > 1:
            found.say_wrong(
                f"shown to be paid before {shown.pay_before_ms}, the order says {order.pay_before_ms}", subject
            )
        elif shown.pay_before_ms is not None and order is None:
            found.say_missing("shown with a time to pay, and there is no order", subject)


def owners(evidence: Evidence) -> dict[Id, str]:
    """Whose each request is: by the decision, else by the log."""
    mine = {request: said.user_id for request, said in evidence.first_requested.items()}
    return mine | {row.request_id: row.user_id for row in evidence.decided}


def _named(user: str, sale: int, quantity: int) -> str:
    return f"{quantity} of sale {sale} for {user}"
