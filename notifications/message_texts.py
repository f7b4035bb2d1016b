"""The text of each message to a buyer. Rejected requests get none, because the purchase's page shows the reason.

All messages are in one language, `SECKILL_MESSAGE_LANGUAGE`, because no service knows the language of a buyer.
"""

from __future__ import annotations

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext, gettext_noop

from notifications.states import ChannelName
from orders.events import OrderChanged, OrderEvent

CHANNELS = tuple(ChannelName.values)
ORDER_ID_CHARACTERS = 8

TEXTS: dict[OrderEvent, str] = {
    OrderEvent.PLACED: gettext_noop(
        "Your order {order} is reserved for you until the payment deadline. Please pay in time."
    ),
    OrderEvent.PAID: gettext_noop("Your order {order} is paid. Thank you."),
    OrderEvent.EXPIRED: gettext_noop("Your order {order} was not paid in time and has ended."),
    OrderEvent.CANCELLED: gettext_noop("Your order {order} is cancelled."),
    OrderEvent.REFUNDED: gettext_noop("Your order {order} is refunded."),
    OrderEvent.LATE_PAYMENT_REFUNDED: gettext_noop(
        "Your payment for order {order} arrived too late and has been refunded."
    ),
}


def message_text(changed: OrderChanged) -> str | None:
    """None: the event is not worth a message."""
    text = TEXTS.get(changed.event)
    if text is None:
        return None
    with translation.override(settings.ENVIRONMENT.message_language):
        return gettext(text).format(order=str(changed.order_id)[:ORDER_ID_CHARACTERS])
