"""The statements of a batch: many rows each, as arrays, and a look at how many were really written.

Times are the database's, those of the transaction: one clock, wherever the processes run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from orders.models import Order
from seckill.streams import statements

# Both insert in the order of their keys: transactions with the same decisions never wait for each other in a circle.
_READ = """
INSERT INTO orders_read_decision (event_id, request_id, decision)
SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::text[]) AS row (event_id, request_id, decision)
ORDER BY event_id
ON CONFLICT DO NOTHING
RETURNING event_id
"""

_PLACE = """
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

_MOVE = """
UPDATE orders_order SET state = %b
WHERE id = ANY(%b) AND state = %b
RETURNING now(), id, request_id, user_id, sale_id, sku, quantity, amount, state, placed_at, pay_before, origin, cause
"""

_HISTORY = """
INSERT INTO orders_transition (order_id, before, after, event_id, at)
SELECT order_id, %b, %b, event_id, %b
FROM unnest(%b::uuid[], %b::uuid[]) WITH ORDINALITY AS row (order_id, event_id, number)
ORDER BY number
"""

_DUE = """
SELECT id FROM orders_order AS due
WHERE state = 'PENDING_PAYMENT' AND pay_before <= now()
  AND NOT EXISTS (SELECT FROM orders_payment WHERE order_id = due.id AND orders_payment.state = 'open')
ORDER BY pay_before, id
LIMIT %s
FOR UPDATE SKIP LOCKED
"""

_UNATTEMPTED = """
SELECT id FROM unnest(%s::uuid[]) AS row (id)
WHERE NOT EXISTS (SELECT FROM orders_payment WHERE order_id = row.id AND state = 'open')
"""

_DUE_ATTEMPTS = """
SELECT due.id, attempt.id
FROM orders_order AS due JOIN orders_payment AS attempt ON attempt.order_id = due.id AND attempt.state = 'open'
WHERE due.state = 'PENDING_PAYMENT' AND due.pay_before <= now()
ORDER BY due.pay_before, due.id
LIMIT %s
"""


def read(rows: Sequence[tuple[UUID, UUID, str]]) -> set[UUID]:
    """(event, request, decision): the events that were not read before."""
    return {row[0] for row in statements.fetch(_READ, [list(column) for column in zip(*rows, strict=True)])}


def place(orders: Sequence[Order], ttl_s: int) -> list[Order]:
    """Those that are new, their times filled in."""
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
    placed = statements.fetch(_PLACE, [orders[0].state, ttl_s, *columns])
    times = {row[0]: (row[1], row[2]) for row in placed}
    made = [order for order in orders if order.id in times]
    for order in made:
        order.placed_at, order.pay_before = times[order.id]
    return made


def move(order_ids: Collection[UUID], before: str, after: str) -> tuple[list[Order], datetime | None]:
    """Those that were where they were expected, as they are now, and since when."""
    found = statements.fetch(_MOVE, [after, list(order_ids), before])
    orders = []
    for row in found:
        names = ("id", "request_id", "user_id", "sale_id", "sku", "quantity", "amount", "state", "placed_at",
                 "pay_before", "origin", "cause")  # fmt: skip
        order = Order(**dict(zip(names, row[1:], strict=True)))
        order.origin = orjson.loads(order.origin) if isinstance(order.origin, str) else order.origin
        orders.append(order)
    return orders, found[0][0] if found else None


def insert_history(before: str, after: str, at: datetime, rows: Sequence[tuple[UUID, UUID]]) -> None:
    """(order, event)."""
    statements.send(_HISTORY, [before, after, at, [order for order, _ in rows], [event for _, event in rows]])


def lock_due(most: int) -> list[UUID]:
    """Orders whose time is over and that nobody is trying to pay, locked until the transaction ends.

    Two statements: an attempt that was begun while we were about to lock is seen by the second one only, and none can
    be begun afterwards.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, [most])
        cursor.execute(_UNATTEMPTED, [[row[0] for row in cursor.fetchall()]])
        return [row[0] for row in cursor.fetchall()]


def due_attempts(most: int) -> list[tuple[UUID, UUID]]:
    """(order, payment): open attempts of orders whose time is over."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE_ATTEMPTS, [most])
        return [(row[0], row[1]) for row in cursor.fetchall()]
