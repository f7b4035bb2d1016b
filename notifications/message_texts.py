"""What a buyer reads, for each event that is worth telling. Losers are told by the page, never by a message."""

from __future__ import annotations

from orders.events import OrderChanged, OrderEvent

CHANNELS = ("sms", "email", "push")

TEXTS: dict[OrderEvent, str] = {
    OrderEvent.PLACED: "Your order {order} is held for you. Pay in time and it is yours.",
    OrderEvent.PAID: "Your order {order} is paid. Thank you.",
    OrderEvent.EXPIRED: "Your order {order} was not paid in time and has ended.",
    OrderEvent.CANCELLED: "Your order {order} is cancelled.",
    OrderEvent.REFUNDED: "Your order {order} is refunded.",
    OrderEvent.LATE_PAYMENT_REFUNDED: "Your payment for order {order} came too late; the money goes back to you.",
}


def text_of(changed: OrderChanged) -> str | None:
    """None: nothing to tell."""
    text = TEXTS.get(changed.event)
    return None if text is None else text.format(order=str(changed.order_id)[:8])
