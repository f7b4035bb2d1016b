"""Check ownership: everything that follows from a request has its buyer, sale, article and quantity."""

from __future__ import annotations

from seckill.report.evidence import Evidence
from seckill.report.rows import RESERVED
from seckill.report.verdicts import Findings, Subject


def ownership_is_kept(evidence: Evidence, findings: Findings) -> None:
    """I27. Hold, ledger entries, order, payments and the shown outcome have the user, sale, article and quantity of the
    decision. They refer to the position of the request in the log and to the decision event that caused them."""
    stocks = {stock.id: stock for stock in evidence.stocks}
    for hold in evidence.holds:
        findings.checked += 1
        row, stock = evidence.decision_by_request.get(hold.request_id), stocks.get(hold.stock_id)
        if row is None:
            continue  # reported by I3
        subject = Subject(hold.request_id)
        mine = (hold.user_id, hold.sale_id, hold.quantity)
        if mine != (row.user_id, row.sale_id, row.quantity):
            findings.add_violation(
                f"held {_named(*mine)}, but decided {_named(row.user_id, row.sale_id, row.quantity)}", subject
            )
        if stock is None or (stock.sale_id, stock.sku) != (row.sale_id, row.sku):
            findings.add_violation(f"units of another article than {row.sku} in sale {row.sale_id} are held", subject)
        if hold.origin is not None and hold.origin != row.position:
            findings.add_violation(f"held for the request at {hold.origin}, but decided at {row.position}", subject)
        for entry in evidence.entries_by_request.get(hold.request_id, ()):
            if entry.stock_id != hold.stock_id:
                findings.add_violation(f"held in stock {hold.stock_id}, but posted to stock {entry.stock_id}", subject)
    decisions = {
        record.request_id: record.event_id for record in evidence.decision_events if record.decision == RESERVED
    }
    for order in evidence.orders:
        findings.checked += 1
        row, subject = evidence.decision_by_request.get(order.request_id), Subject(order.request_id, order.id)
        if row is None:
            continue
        mine = (order.user_id, order.sale_id, order.quantity)
        if mine != (row.user_id, row.sale_id, row.quantity) or (order.sku and order.sku != row.sku):
            wanted = _named(row.user_id, row.sale_id, row.quantity)
            findings.add_violation(f"ordered {_named(*mine)} {order.sku}, but decided {wanted} {row.sku}", subject)
        if order.origin is not None and order.origin != row.position:
            findings.add_violation(f"ordered for the request at {order.origin}, but decided at {row.position}", subject)
        if order.cause is not None and order.cause != decisions.get(order.request_id, order.cause):
            findings.add_violation("the order refers to another decision event than the published one", subject)
    _payments(evidence, findings)
    _outcomes(evidence, findings)


def _payments(evidence: Evidence, findings: Findings) -> None:
    ours = {payment.id: payment for payment in evidence.payments}
    for line in evidence.provider_lines:
        payment = ours.get(line.payment_id)
        if payment is not None and line.order_id is not None:
            findings.checked += 1
            if line.order_id != payment.order_id:
                findings.add_violation(
                    f"the provider has payment {payment.id} for order {line.order_id}",
                    Subject(order_id=payment.order_id),
                )
    for callback in evidence.callbacks:
        findings.checked += 1
        payment = ours.get(callback.payment_id)
        if payment is None:
            findings.add_violation(f"a callback about payment {callback.payment_id}, which does not exist")
        elif callback.kind == "captured" and not payment.was_captured:
            findings.add_missing(
                f"a callback says {callback.kind}, but the payment is not", Subject(None, payment.order_id)
            )


def _outcomes(evidence: Evidence, findings: Findings) -> None:
    for shown in evidence.outcomes:
        findings.checked += 1
        row, order = evidence.decision_by_request.get(shown.request_id), evidence.order_by_request.get(shown.request_id)
        subject = Subject(shown.request_id)
        if row is not None and shown.user_id != row.user_id:
            findings.add_violation(f"shown to {shown.user_id}, but it belongs to {row.user_id}", subject)
        if row is not None and shown.sale_id not in (None, row.sale_id):
            findings.add_violation(f"shown for sale {shown.sale_id}, but it is in sale {row.sale_id}", subject)
        if shown.order_id is not None and (order is None or order.id != shown.order_id):
            findings.add_missing(f"shown with order {shown.order_id}, which belongs to another request", subject)
        elif shown.order_id is None and order is not None and shown.sale_id is not None:
            findings.add_missing("shown without its order", subject)
        if order is not None and shown.pay_before_ms is not None and abs(shown.pay_before_ms - order.pay_before_ms) > 1:
            findings.add_violation(
                f"shown as due before {shown.pay_before_ms}, but the order is due before {order.pay_before_ms}", subject
            )
        elif shown.pay_before_ms is not None and order is None:
            findings.add_missing("shown with a time to pay, but without an order", subject)


def _named(user: str, sale: int, quantity: int) -> str:
    return f"{quantity} in sale {sale} by {user}"
