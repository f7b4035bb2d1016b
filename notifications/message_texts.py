"""The text of each message to a buyer. Rejected requests get none, because the purchase's page shows the reason."""

from __future__ import annotations

from notifications.states import ChannelName
from orders.events import OrderChanged, OrderEvent

CHANNELS = tuple(ChannelName.values)
ORDER_ID_CHARACTERS = 8

TEXTS: dict[OrderEvent, str] = {
    OrderEvent.PLACED: "Your order {order} is reserved for you until the payment deadline. Please pay in time.",
    OrderEvent.PAID: "Your order {order} is paid. Thank you.",
    OrderEvent.EXPIRED: "Your order {order} was not paid in time and has ended.",
    OrderEvent.CANCELLED: "Your order {order} is cancelled.",
    OrderEvent.REFUNDED: "Your order {order} is refunded.",
    OrderEvent.LATE_PAYMENT_REFUNDED: "Your payment for order {order} arrived too late and has been refunded.",
}


def message_text(changed: OrderChanged) -> str | None:
    """None: the event is not worth a message."""
    text = TEXTS.get(changed.event)
    return None if text is None else text.format(order=str(changed.order_id)[:ORDER_ID_CHARACTERS])
