"""SQL of a batch: one statement for many rows, with the rows as arrays, and a check of how many were written.

Times are set by the database, as the start of the transaction, so all hosts use one clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from orders.models import Order
from orders.states import OrderState
from seckill.messaging import binary_sql

# Both INSERTs are ordered by key, so transactions with the same decisions lock rows in one order and cannot deadlock.
_INSERT_READ_DECISIONS = """
INSERT INTO orders_read_decision (event_id, request_id, decision)
SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::text[]) AS row (event_id, request_id, decision)
ORDER BY event_id
ON CONFLICT DO NOTHING
RETURNING event_id
"""

_INSERT_ORDERS = """
INSERT INTO orders_order (id, request_id, user_id, sale_id, sku, quantity, amount, state, placed_at, pay_before, origin,
                          cause)
SELECT id, request_id, user_id, sale_id, sku, quantity, amount, %b, now(), now() + make_interval(secs => %b),
       origin::jsonb, cause
FROM unnest(%b::uuid[], %b::uuid[], %b::text[], %b::bigint[], %b::text[], %b::int[], %b::bigint[], %b::text[],
            %b::uuid[])
     AS row (id, request_id, user_id, sale_id, sku, quantity, amount, origin, cause)
ORDER BY id
ON CONFLICT DO NOTHING
RETURNING id, placed_at, pay_before
"""

_UPDATE_ORDER_STATES = """
UPDATE orders_order SET state = %b
WHERE id = ANY(%b) AND state = %b
RETURNING now(), id, request_id, user_id, sale_id, sku, quantity, amount, state, placed_at, pay_before, origin, cause
"""
_UPDATED_COLUMNS = (
    "id", "request_id", "user_id", "sale_id", "sku", "quantity", "amount", "state", "placed_at", "pay_before", "origin",
    "cause",
)  # fmt: skip

_INSERT_TRANSITIONS = """
INSERT INTO orders_transition (order_id, before, after, event_id, at)
SELECT order_id, %b, %b, event_id, %b
FROM unnest(%b::uuid[], %b::uuid[]) WITH ORDINALITY AS row (order_id, event_id, number)
ORDER BY number
"""

_FIND_DUE_ATTEMPTS = """
SELECT due.id, attempt.id
FROM orders_order AS due JOIN orders_payment AS attempt ON attempt.order_id = due.id AND attempt.state = 'open'
WHERE due.state = 'PENDING_PAYMENT' AND due.pay_before <= now()
ORDER BY due.pay_before, due.id
LIMIT %s
"""


def insert_read_decisions(rows: Sequence[tuple[UUID, UUID, str]]) -> set[UUID]:
    """(event, request, decision). Returns the ids of the events that were not in the table before."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return {row[0] for row in binary_sql.fetch(_INSERT_READ_DECISIONS, columns)}


def insert_orders(orders: Sequence[Order], ttl_s: int) -> list[Order]:
    """The orders that did not exist before, with their times filled in."""
    columns: list[list[Any]] = [
        [order.id for order in orders],
        [order.request_id for order in orders],
        [order.user_id for order in orders],
        [order.sale_id for order in orders],
        [order.sku for order in orders],
        [order.quantity for order in orders],
        [order.amount for order in orders],
        [None if order.origin is None else orjson.dumps(order.origin).decode() for order in orders],
        [order.cause for order in orders],
    ]
    inserted = binary_sql.fetch(_INSERT_ORDERS, [orders[0].state, ttl_s, *columns])
    times = {row[0]: (row[1], row[2]) for row in inserted}
    new = [order for order in orders if order.id in times]
    for order in new:
        order.placed_at, order.pay_before = times[order.id]
    return new


def update_order_states(
    order_ids: Collection[UUID], before: OrderState, after: OrderState
) -> tuple[list[Order], datetime | None]:
    """The orders that were in state `before`, as they are now, and the time of the change (None: no order changed)."""
    rows = binary_sql.fetch(_UPDATE_ORDER_STATES, [after, list(order_ids), before])
    orders = []
    for row in rows:
        order = Order(**dict(zip(_UPDATED_COLUMNS, row[1:], strict=True)))
        order.origin = orjson.loads(order.origin) if isinstance(order.origin, str) else order.origin
        orders.append(order)
    return orders, rows[0][0] if rows else None


def insert_transitions(before: str, after: str, at: datetime, rows: Sequence[tuple[UUID, UUID]]) -> None:
    """(order, event)."""
    orders, events = zip(*rows, strict=True)
    binary_sql.send_only(_INSERT_TRANSITIONS, [before, after, at, list(orders), list(events)])


def find_due_attempts(limit: int) -> list[tuple[UUID, UUID]]:
    """(order, payment): open attempts of orders whose time to pay has ended."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND_DUE_ATTEMPTS, [limit])
        return [(row[0], row[1]) for row in cursor.fetchall()]
