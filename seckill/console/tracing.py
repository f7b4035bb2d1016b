"""Trace: any id of a request, an order or a payment, or a buyer's name → one timeline, with the place in the log that
it began at and the transaction that wrote each step. Only what stands in tables; the report knows the client's side."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from seckill.console.staff import for_operators

MOST = 500


class Moment(NamedTuple):
    at: datetime
    rank: int
    where: str
    what: str
    transaction: str


_REQUESTS = """
SELECT request_id FROM inventory_decided WHERE request_id = %(id)s
UNION SELECT request_id FROM gateway_outcome WHERE request_id = %(id)s
UNION SELECT request_id FROM orders_order WHERE id = %(id)s OR request_id = %(id)s
UNION SELECT o.request_id FROM orders_payment p JOIN orders_order o ON o.id = p.order_id WHERE p.id = %(id)s
"""
_OF_USER = """
SELECT request_id FROM gateway_outcome WHERE user_id = %(user)s ORDER BY updated_at DESC LIMIT 20
"""

# Each gives (at, rank, where, what, transaction) for the requests in question.
_STEPS = (
    "SELECT to_timestamp(admitted_at_ms / 1000.0), 1, 'gateway', "
    "format('request %%s of %%s: %%s %%s of sale %%s, admitted', request_id, user_id, quantity, sku, sale_id), '' "
    "FROM inventory_decided WHERE request_id = ANY(%(ids)s)",
    "SELECT to_timestamp(decided_at_ms / 1000.0), 2, format('%%s-%%s@%%s', (SELECT min(topic) FROM streams_offset "
    "WHERE streams_offset.topic_id = inventory_decided.topic_id), partition, record_offset), "
    "format('decided %%s at stock version %%s', decision, stock_version), xmin::text "
    "FROM inventory_decided WHERE request_id = ANY(%(ids)s)",
    "SELECT at, 3, 'ledger', format('version %%s: %%s, %%s from %%s to %%s', version, kind, units, debit, credit), "
    "xmin::text FROM inventory_ledger WHERE (kind = 'reserve' AND cause = ANY(%(ids)s)) "
    "OR (kind IN ('sell', 'release', 'return') AND cause = ANY(ARRAY(SELECT t.event_id FROM orders_transition t "
    "JOIN orders_order o ON o.id = t.order_id WHERE o.request_id = ANY(%(ids)s))))",
    "SELECT o.placed_at, 4, 'order', format('order %%s, %%s units for %%s', o.id, o.quantity, o.amount), '' "
    "FROM orders_order o WHERE o.request_id = ANY(%(ids)s)",
    "SELECT t.at, 5, 'order', format('%%s → %%s', coalesce(nullif(t.before, ''), 'new'), t.after), t.xmin::text "
    "FROM orders_transition t JOIN orders_order o ON o.id = t.order_id WHERE o.request_id = ANY(%(ids)s)",
    "SELECT p.opened_at, 6, 'payment', format('attempt %%s of %%s begun', p.id, p.amount), '' "
    "FROM orders_payment p JOIN orders_order o ON o.id = p.order_id WHERE o.request_id = ANY(%(ids)s)",
    "SELECT p.captured_at, 6, 'payment', format('captured %%s%%s', p.amount, CASE WHEN p.late THEN ', too late' END), "
    "p.xmin::text FROM orders_payment p JOIN orders_order o ON o.id = p.order_id "
    "WHERE o.request_id = ANY(%(ids)s) AND p.captured_at IS NOT NULL",
    "SELECT p.refunded_at, 7, 'payment', format('given back %%s', p.amount), p.xmin::text "
    "FROM orders_payment p JOIN orders_order o ON o.id = p.order_id "
    "WHERE o.request_id = ANY(%(ids)s) AND p.refunded_at IS NOT NULL",
    "SELECT d.done_at, 8, 'delivery', format('%%s: %%s, %%s attempts', d.channel, d.text, d.attempts), d.xmin::text "
    "FROM notifications_delivery d JOIN orders_transition t ON t.event_id = d.event_id "
    "JOIN orders_order o ON o.id = t.order_id WHERE o.request_id = ANY(%(ids)s) AND d.done_at IS NOT NULL",
    "SELECT l.died_at, 2, format('%%s-%%s@%%s', l.topic, l.partition, l.record_offset), "
    "format('dead letter %%s of %%s (%%s): %%s', l.id, l.consumer_group, l.state, left(l.reason, 200)), l.xmin::text "
    "FROM streams_dead_letter l JOIN inventory_decided d ON d.topic_id = l.topic_id AND d.partition = l.partition "
    "AND d.record_offset = l.record_offset WHERE d.request_id = ANY(%(ids)s)",
    "SELECT updated_at, 9, 'shown', format('the buyer is shown %%s%%s', state, "
    "CASE WHEN may_buy_again THEN ', may buy again' END), xmin::text "
    "FROM gateway_outcome WHERE request_id = ANY(%(ids)s)",
)


@require_GET
@for_operators
def trace(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("id", "").strip()[:200]
    requests = find(text) if text else []
    told = {"id": text, "requests": requests, "moments": timeline(requests), "looked": bool(text)}
    return render(request, "console/trace.html", told)


def find(text: str) -> list[UUID]:
    try:
        return [row[0] for row in _rows(_REQUESTS, {"id": UUID(text)})]
    except ValueError:
        return [row[0] for row in _rows(_OF_USER, {"user": text})]


def timeline(requests: list[UUID]) -> list[Moment]:
    if not requests:
        return []
    moments = [Moment(*row) for statement in _STEPS for row in _rows(statement, {"ids": requests})]
    return sorted(moments)[:MOST]


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
