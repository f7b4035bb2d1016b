"""The trace page: any id of a request, an order or a payment, or a buyer's name, becomes one timeline.

The steps are described by seckill/report/timeline.py, as in the report. The page reads tables only, so it knows the
database transaction of a step, while the report also knows the client's side. The page translates them; codes of states
and decisions stay as they are in the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from seckill.console.labels import TRACE_PLACES, state_label
from seckill.console.staff import operator_required
from seckill.report import timeline
from seckill.report.timeline import Sentence, TimelineStep

STEPS_MAX = 500

_REQUESTS_OF_ID = """
SELECT request_id FROM inventory_decided WHERE request_id = %(id)s
UNION SELECT request_id FROM gateway_outcome WHERE request_id = %(id)s
UNION SELECT request_id FROM orders_order WHERE id = %(id)s OR request_id = %(id)s
UNION SELECT o.request_id FROM orders_payment p JOIN orders_order o ON o.id = p.order_id WHERE p.id = %(id)s
"""
_REQUESTS_OF_USER = """
SELECT request_id FROM gateway_outcome WHERE user_id = %(user)s ORDER BY updated_at DESC LIMIT 20
"""
_ORDERS = "SELECT id FROM orders_order WHERE request_id = ANY(%(ids)s)"
_DECIDED = """
SELECT request_id, user_id, sale_id, sku, quantity, decision, stock_version, admitted_at_ms, decided_at_ms,
       format('%%s/%%s/%%s', (SELECT min(topic) FROM streams_offset o WHERE o.topic_id = d.topic_id), partition,
              record_offset), xmin::text
FROM inventory_decided d WHERE request_id = ANY(%(ids)s)
"""
_DEAD_LETTERS = """
SELECT l.died_at, l.consumer_group, l.state, left(l.reason, 200),
       format('%%s/%%s/%%s', l.topic, l.partition, l.record_offset), l.xmin::text
FROM streams_dead_letter l JOIN inventory_decided d
  ON d.topic_id = l.topic_id AND d.partition = l.partition AND d.record_offset = l.record_offset
WHERE d.request_id = ANY(%(ids)s)
"""
_LEDGER = f"""
SELECT at, version, kind, units, debit, credit, xmin::text FROM inventory_ledger
WHERE (kind = 'reserve' AND cause = ANY(%(ids)s)) OR (kind IN ('sell', 'release', 'return')
  AND cause IN (SELECT event_id FROM orders_transition WHERE order_id IN ({_ORDERS})))
"""
_PLACED = "SELECT placed_at, id, request_id, quantity, amount FROM orders_order WHERE request_id = ANY(%(ids)s)"
_TRANSITIONS = f"SELECT at, before, after, xmin::text FROM orders_transition WHERE order_id IN ({_ORDERS})"
_PAYMENTS = f"""
SELECT opened_at, captured_at, refunded_at, id, amount, late, xmin::text FROM orders_payment
WHERE order_id IN ({_ORDERS})
"""
_DELIVERIES = f"""
SELECT d.done_at, d.channel, d.text, d.attempts, d.xmin::text
FROM notifications_delivery d JOIN orders_transition t ON t.event_id = d.event_id
WHERE t.order_id IN ({_ORDERS}) AND d.done_at IS NOT NULL
"""
_OUTCOMES = """
SELECT updated_at, state, may_buy_again, xmin::text FROM gateway_outcome WHERE request_id = ANY(%(ids)s)
"""


@require_GET
@operator_required
def trace(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("id", "").strip()[:200]
    requests = find_requests(text) if text else []
    context = {
        "id": text,
        "has_searched": bool(text),
        "steps": [translate_step(step) for step in fetch_timeline(requests)],
    }
    return render(request, "console/trace.html", context)


def translate_step(step: TimelineStep) -> TimelineStep:
    """In the operator's language."""
    return step._replace(where=state_label(TRACE_PLACES, step.where), what=_translate(step.what))


def _translate(text: str) -> str:
    if not isinstance(text, Sentence):
        return text
    facts = {name: _translate(fact) if isinstance(fact, str) else fact for name, fact in text.facts.items()}
    return gettext(text.template).format(**facts)


def find_requests(text: str) -> list[UUID]:
    try:
        return [row[0] for row in _fetch_rows(_REQUESTS_OF_ID, {"id": UUID(text)})]
    except ValueError:
        return [row[0] for row in _fetch_rows(_REQUESTS_OF_USER, {"user": text})]


def fetch_timeline(requests: list[UUID]) -> list[TimelineStep]:
    if not requests:
        return []
    return timeline.merge_steps(_steps({"ids": requests}))[:STEPS_MAX]


def _steps(ids: dict[str, Any]) -> Iterator[TimelineStep]:
    for row in _fetch_rows(_DECIDED, ids):
        request_id, user_id, sale_id, sku, quantity, decision, version, admitted_at_ms, decided_at_ms, where, xmin = row
        yield timeline.request_admitted(admitted_at_ms, request_id, user_id, quantity, sku, sale_id)
        yield timeline.request_decided(decided_at_ms, decision, request_id, version, where, xmin)
    for at, group, state, reason, where, xmin in _fetch_rows(_DEAD_LETTERS, ids):
        yield timeline.request_dead_lettered(_ms(at), group, state, reason, where, xmin)
    for at, *entry in _fetch_rows(_LEDGER, ids):
        yield timeline.ledger_entry_posted(_ms(at), *entry)
    for at, *order in _fetch_rows(_PLACED, ids):
        yield timeline.order_placed(_ms(at), *order)
    for at, *change in _fetch_rows(_TRANSITIONS, ids):
        yield timeline.order_changed(_ms(at), *change)
    for opened_at, captured_at, refunded_at, payment_id, amount, is_late, xmin in _fetch_rows(_PAYMENTS, ids):
        yield timeline.payment_opened(_ms(opened_at), payment_id, amount)
        if captured_at is not None:
            yield timeline.payment_captured(_ms(captured_at), amount, is_late, xmin)
        if refunded_at is not None:
            yield timeline.payment_refunded(_ms(refunded_at), amount, xmin)
    for at, *delivery in _fetch_rows(_DELIVERIES, ids):
        yield timeline.message_delivered(_ms(at), *delivery)
    for at, *outcome in _fetch_rows(_OUTCOMES, ids):
        yield timeline.outcome_shown(_ms(at), *outcome)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _fetch_rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
