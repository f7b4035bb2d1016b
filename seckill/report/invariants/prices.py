"""Check prices: a buyer pays the declared price, from the decision to the capture."""

from __future__ import annotations

from seckill.report.evidence import Evidence
from seckill.report.verdicts import Findings, Subject


def amounts_match_prices(evidence: Evidence, findings: Findings) -> None:
    """I25. Every amount is the declared unit price times the quantity, in the order, in each of its events and in each
    payment, and the decision states that unit price. I14 compares these amounts with the provider's log."""
    articles = {(stock.sale_id, stock.sku): stock for stock in evidence.stocks}
    for stock in evidence.stocks:
        findings.checked += 1
        if stock.unit_price is None:
            findings.unknown.append(f"the unit price of sale {stock.sale_id} {stock.sku} is unknown")
    for record in evidence.decision_events:
        stock_of = articles.get((record.sale_id or 0, record.sku))
        if record.unit_price is not None:
            findings.checked += 1
            price = 0 if stock_of is None else stock_of.unit_price
            if price is not None and record.unit_price != price:
                findings.add_violation(
                    f"decided at a unit price of {record.unit_price}, but the article costs {price}",
                    Subject(record.request_id),
                )
    for order in evidence.orders:
        findings.checked += 1
        row = evidence.decision_by_request.get(order.request_id)
        stock_of = articles.get((order.sale_id, row.sku if row is not None else order.sku))
        price = None if stock_of is None else stock_of.unit_price
        wanted = 0 if order.state == "NOT_PLACED" else None if price is None else price * order.quantity
        if wanted is not None and order.amount != wanted:
            findings.add_violation(
                f"an order of {order.quantity} units costs {order.amount} instead of {wanted}",
                Subject(order.request_id, order.id),
            )
    orders = evidence.order_by_id
    for event in evidence.order_events:
        known = orders.get(event.order_id)
        if known is not None and event.amount is not None:
            findings.checked += 1
            if event.amount != known.amount:
                findings.add_violation(
                    f"{event.event} says {event.amount}, but the order says {known.amount}", Subject(None, known.id)
                )
    for payment in evidence.payments:
        findings.checked += 1
        known = orders.get(payment.order_id)
        if known is None:
            findings.add_violation(f"a payment for order {payment.order_id}, which does not exist")
        elif payment.amount != known.amount:
            findings.add_violation(
                f"a payment of {payment.amount} for an order of {known.amount}", Subject(None, known.id)
            )
