"""The lifecycle of an order as a table, and the one way to move along it.

    PENDING_PAYMENT → PAID → REFUNDED          PENDING_PAYMENT → EXPIRED | CANCELLED

What is not in the table does not happen. A move is a conditional UPDATE that states where the order is expected to be:
whoever changes the row wins, everybody else is told that he was late.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import connection
from django.utils import timezone

from orders.events import OrderChanged, OrderEvent
from orders.models import Order, Transition
from seckill.envelope import Origin
from seckill.streams.outbox import Event, publish
from seckill.topics import ORDER_EVENTS


class State(StrEnum):
    PENDING_PAYMENT = "PENDING_PAYMENT"
    PAID = "PAID"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    REFUNDED = "REFUNDED"


TRANSITIONS: dict[tuple[State, State], OrderEvent] = {
    (State.PENDING_PAYMENT, State.PAID): OrderEvent.PAID,
    (State.PENDING_PAYMENT, State.EXPIRED): OrderEvent.EXPIRED,
    (State.PENDING_PAYMENT, State.CANCELLED): OrderEvent.CANCELLED,
    (State.PAID, State.REFUNDED): OrderEvent.REFUNDED,
}


def move(
    order_id: UUID, before: State, after: State, *, cause: UUID | None = None, return_units: bool = False
) -> Order | None:
    """The order in its new state, its event published; None: somebody was faster, and that is an answer."""
    assert connection.in_atomic_block
    event = TRANSITIONS[before, after]
    now = timezone.now()
    if Order.objects.filter(id=order_id, state=before).update(state=after) != 1:
        return None
    order = Order.objects.get(id=order_id)
    announce(order, event, before, after, now, cause=cause, return_units=return_units)
    return order


def announce(
    order: Order,
    event: OrderEvent,
    before: State | None,
    after: State,
    at: datetime,
    *,
    cause: UUID | None = None,
    return_units: bool = False,
) -> None:
    """The row of the history, and the event that tells of it."""
    envelope = changed(order, event, at, return_units=return_units).envelope(cause or order.cause, _origin(order))
    Transition.objects.create(order=order, before=before or "", after=after, event_id=envelope.event_id, at=at)
    publish([Event(ORDER_EVENTS, order.user_id, envelope)])


def changed(order: Order, event: OrderEvent, at: datetime, *, return_units: bool = False) -> OrderChanged:
    return OrderChanged(
        event, order.id, order.request_id, order.user_id, order.sale_id, order.sku, order.quantity, order.amount,
        int(at.timestamp() * 1000), int(order.pay_before.timestamp() * 1000), return_units,
    )  # fmt: skip


def _origin(order: Order) -> Origin | None:
    return None if order.origin is None else Origin(*order.origin)
