"""Prices: what a buyer pays is the declared price of what he bought, from the decision to the capture."""

from __future__ import annotations

from seckill.consistency.evidence import Evidence
from seckill.consistency.verdicts import Found, Subject


def prices_hold(evidence: Evidence, found: Found) -> None:
    """I25. Every amount is the declared unit price times the quantity: in the decision, in the order, in each of its
    events, and in each payment; the provider takes and gives back no other (I14)."""
    articles = {(stock.sale_id, stock.sku): stock for stock in evidence.stocks}
    for stock in evidence.stocks:
        found.looked_at += 1
        if stock.unit_price is None:
            found.unknown.append(f"no unit price is known of sale {stock.sale_id} {stock.sku}")
    for said in evidence.decisions_said:
        stock_of = articles.get((said.sale_id or 0, said.sku))
        if said.unit_price is not None:
            found.looked_at += 1
            price = 0 if stock_of is None else stock_of.unit_price
            if price is not None and said.unit_price != price:
                found.say_wrong(
                    f"decided at a price of {said.unit_price}, and the article costs {price}", Subject(said.request_id)
                )
    for order in evidence.orders:
        found.looked_at += 1
        row = evidence.decision_of.get(order.request_id)
        stock_of = articles.get((order.sale_id, row.sku if row is not None else order.sku))
        price = None if stock_of is None else stock_of.unit_price
        wanted = 0 if order.state == "NOT_PLACED" else None if price is None else price * order.quantity
        if wanted is not None and order.amount != wanted:
            found.say_wrong(
                f"an order of {order.quantity} costs {order.amount}, and the price makes it {wanted}",
                Subject(order.request_id, order.id),
            )
    orders = evidence.order_by_id
    for event in evidence.orders_said:
        known = orders.get(event.order_id)
        if known is not None and event.amount is not None:
            found.looked_at += 1
            if event.amount != known.amount:
                found.say_wrong(f"{event.event} says {event.amount}, the order {known.amount}", Subject(None, known.id))
    for payment in evidence.payments:
        found.looked_at += 1
        known = orders.get(payment.order_id)
        if known is None:
            found.say_wrong(f"a payment of order {payment.order_id}, which does not exist")
        elif payment.amount != known.amount:
            found.say_wrong(
                f"a payment over {payment.amount}, of an order over {known.amount}", Subject(None, known.id)
            )
