"""The lifecycle of an order as a table, and the one way to move along it.

    PENDING_PAYMENT → PAID → REFUNDED          PENDING_PAYMENT → EXPIRED | CANCELLED          NOT_PLACED

What is not in the table does not happen. A move is a conditional UPDATE that states where the order is expected to be:
whoever changes the row wins, everybody else is told that he was late.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import connection

from orders import rows
from orders.events import OrderChanged, OrderEvent
from orders.models import Order
from seckill.envelope import Origin
from seckill.streams import statements
from seckill.streams.outbox import Event, publish
from seckill.topics import ORDER_EVENTS


class State(StrEnum):
    PENDING_PAYMENT = "PENDING_PAYMENT"
    PAID = "PAID"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    REFUNDED = "REFUNDED"
    NOT_PLACED = "NOT_PLACED"  # its decision was given up: the row only says so, and that nothing can follow


TRANSITIONS: dict[tuple[State, State], OrderEvent] = {
    (State.PENDING_PAYMENT, State.PAID): OrderEvent.PAID,
    (State.PENDING_PAYMENT, State.EXPIRED): OrderEvent.EXPIRED,
    (State.PENDING_PAYMENT, State.CANCELLED): OrderEvent.CANCELLED,
    (State.PAID, State.REFUNDED): OrderEvent.REFUNDED,
}


def move(order_id: UUID, before: State, after: State, *, return_units: bool = False) -> Order | None:
    """The order in its new state, its event published; None: somebody was faster, and that is an answer."""
    moved = move_many([order_id], before, after, return_units=return_units)
    return moved[0] if moved else None


def move_many(
    order_ids: Collection[UUID], before: State, after: State, *, return_units: bool = False
) -> Sequence[Order]:
    """Those that were where they were expected."""
    assert connection.in_atomic_block
    event = TRANSITIONS[before, after]
    moved, at = rows.move(order_ids, before, after)
    if at is not None:
        announce(moved, event, before, after, at, return_units=return_units)
    return moved


def announce(
    orders: Sequence[Order],
    event: OrderEvent,
    before: State | None,
    after: State,
    at: datetime,
    *,
    return_units: bool = False,
) -> None:
    """The rows of the history, and the events that tell of it."""
    events = [event_of(order, event, at, return_units=return_units) for order in orders]
    history = [(order.id, each.envelope.event_id) for order, each in zip(orders, events, strict=True)]
    with statements.unawaited():
        rows.insert_history(before or "", after, at, history)
        publish(events)


def event_of(order: Order, event: OrderEvent, at: datetime, *, return_units: bool = False) -> Event:
    """Caused by the decision that the order rests on."""
    returned = order.quantity if return_units else 0
    origin = None if order.origin is None else Origin(*order.origin)
    said = OrderChanged(
        event, order.id, order.request_id, order.user_id, order.sale_id, order.sku, order.quantity, order.amount,
        int(at.timestamp() * 1000), int(order.pay_before.timestamp() * 1000), returned,
    )  # fmt: skip
    return Event(ORDER_EVENTS, order.user_id, said.envelope(order.cause, origin))
