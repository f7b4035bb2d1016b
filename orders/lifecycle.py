"""The lifecycle of an order as a table, and the only functions that move an order along it.

    PENDING_PAYMENT → PAID → REFUNDED          PENDING_PAYMENT → EXPIRED | CANCELLED          NOT_PLACED

No other transition exists. A move is an UPDATE with the expected state as its condition, so if several processes try at
once, one changes the row and the others learn that they were too late.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from orders import batch_sql
from orders.events import OrderChanged, OrderEvent
from orders.models import Order
from orders.states import OrderState
from seckill.messaging import binary_sql
from seckill.messaging.outbox import Event, publish
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import ORDER_EVENTS

TRANSITIONS: dict[tuple[OrderState, OrderState], OrderEvent] = {
    (OrderState.PENDING_PAYMENT, OrderState.PAID): OrderEvent.PAID,
    (OrderState.PENDING_PAYMENT, OrderState.EXPIRED): OrderEvent.EXPIRED,
    (OrderState.PENDING_PAYMENT, OrderState.CANCELLED): OrderEvent.CANCELLED,
    (OrderState.PAID, OrderState.REFUNDED): OrderEvent.REFUNDED,
}


def move_order(order_id: UUID, before: OrderState, after: OrderState, *, return_units: bool = False) -> Order | None:
    """The order in its new state, with its event published. None: it was not in state `before`."""
    moved = move_orders([order_id], before, after, return_units=return_units)
    return moved[0] if moved else None


def move_orders(
    order_ids: Collection[UUID], before: OrderState, after: OrderState, *, return_units: bool = False
) -> Sequence[Order]:
    """The orders that were in state `before`, in their new state."""
    if not connection.in_atomic_block:
        raise RuntimeError("an order moves inside a transaction, together with its event")
    event = TRANSITIONS[before, after]
    moved, at = batch_sql.update_order_states(order_ids, before, after)
    if at is not None:
        record_transitions(moved, event, before, after, at, return_units=return_units)
    return moved


def record_transitions(
    orders: Sequence[Order],
    event: OrderEvent,
    before: OrderState | None,
    after: OrderState,
    at: datetime,
    *,
    return_units: bool = False,
) -> None:
    """Insert one transition per order and publish its event."""
    events = [build_event(order, event, at, return_units=return_units) for order in orders]
    history = [(order.id, each.envelope.event_id) for order, each in zip(orders, events, strict=True)]
    with binary_sql.pipelined():
        batch_sql.insert_transitions(before or "", after, at, history)
        publish(events)


def build_event(order: Order, event: OrderEvent, at: datetime, *, return_units: bool = False) -> Event:
    """Its cause is the decision that the order is based on."""
    returned = order.quantity if return_units else 0
    origin = None if order.origin is None else RecordPosition(*order.origin)
    changed = OrderChanged(
        event, order.id, order.request_id, order.user_id, order.sale_id, order.sku, order.quantity, order.amount,
        int(at.timestamp() * 1000), int(order.pay_before.timestamp() * 1000), returned,
    )  # fmt: skip
    return Event(ORDER_EVENTS, order.user_id, changed.envelope(order.cause, origin))
