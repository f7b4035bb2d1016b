"""What the board counts in tables: sales, outcomes, the latency of each hop, unfinished work. It only reads.

This is the console's only SQL on tables of other packages. A test runs every statement, so a renamed column is noticed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import connection

from seckill.audit.models import AuditEntry
from seckill.console.marks import Operation
from seckill.messaging.models import Switch
from seckill.monitoring.metrics import count_by
from seckill.web.running_sale import importance

LATENCY_WINDOW_S = 60
OPERATIONS_MAX = 20

_SALES = """
SELECT s.id, s.name, s.state, s.opens_at_ms, s.closes_at_ms, t.sku, t.declared, t.available, t.reserved, t.sold,
       coalesce(a.adjusted, 0)::bigint
FROM inventory_sale s JOIN inventory_stock t ON t.sale_id = s.id
LEFT JOIN (SELECT stock_id, sum(CASE WHEN debit = 'supply' THEN units ELSE -units END) AS adjusted
           FROM inventory_ledger WHERE kind = 'adjust' GROUP BY stock_id) a ON a.stock_id = t.id
ORDER BY s.id DESC, t.id LIMIT 50
"""
_EXAMPLE = "SELECT request_id::text FROM gateway_outcome WHERE state = %s LIMIT 1"
_LATENCIES = {
    "inventory": "SELECT decided_at_ms - admitted_at_ms AS latency_ms FROM inventory_decided "
    "WHERE decided_at_ms > extract(epoch FROM now()) * 1000 - %s * 1000",
    "orders": "SELECT extract(epoch FROM o.placed_at) * 1000 - d.decided_at_ms AS latency_ms FROM orders_order o "
    "JOIN inventory_decided d ON d.request_id = o.request_id WHERE o.placed_at > now() - %s * interval '1 second'",
    "settlement": "SELECT extract(epoch FROM l.at - t.at) * 1000 AS latency_ms FROM inventory_ledger l "
    "JOIN orders_transition t ON t.event_id = l.cause WHERE l.at > now() - %s * interval '1 second'",
    "notify": "SELECT extract(epoch FROM d.done_at - t.at) * 1000 AS latency_ms FROM notifications_delivery d "
    "JOIN orders_transition t ON t.event_id = d.event_id WHERE d.done_at > now() - %s * interval '1 second'",
}
_SOLD_OUT = """
SELECT (extract(epoch FROM l.at) * 1000)::bigint
FROM inventory_stock t JOIN inventory_ledger l ON l.stock_id = t.id AND l.version = t.version
WHERE t.available = 0 AND t.reserved = 0 AND l.credit = 'sold'
"""
_UNFINISHED = """
SELECT (SELECT count(*) FROM streams_outbox), (SELECT count(*) FROM notifications_delivery WHERE state = 'due'),
       (SELECT count(*) FROM streams_dead_letter WHERE state IN ('open', 'quarantined')),
       (SELECT count(*) FROM orders_payment WHERE state = 'refunding')
"""


class SaleRow(NamedTuple):
    id: int
    name: str
    state: str
    opens_at_ms: int
    closes_at_ms: int
    sku: str
    declared: int
    available: int
    reserved: int
    sold: int
    adjusted: int


class OutcomeCount(NamedTuple):
    state: str
    requests: int
    example: str  # id of one such request


class HopLatency(NamedTuple):
    """Of the purchases that passed the hop in the last minute."""

    purchases: int
    p50_ms: float | None
    p99_ms: float | None


class UnfinishedWork(NamedTuple):
    unpublished_events: int
    undelivered_messages: int
    dead_letters: int
    refunds_due: int


class BoardCounts(NamedTuple):
    sales: list[SaleRow]
    outcomes: list[OutcomeCount]
    latencies: dict[str, HopLatency]  # by the `latency` of a hop
    unfinished: UnfinishedWork
    switched_off: list[str]


def read_sales(now_ms: int) -> list[SaleRow]:
    """The running sale first."""
    sales = [SaleRow(*row) for row in _fetch_rows(_SALES)]
    return sorted(sales, key=lambda sale: importance(sale.id, sale.state, sale.opens_at_ms, sale.closes_at_ms, now_ms))


def read_counts(now_ms: int) -> BoardCounts:
    outcomes = [OutcomeCount(state, int(count), _find_example(state)) for state, count in _count_outcomes()]
    return BoardCounts(
        read_sales(now_ms),
        sorted(outcomes, key=lambda outcome: -outcome.requests),
        {
            name: HopLatency(*_fetch_rows(_percentiles(statement), [LATENCY_WINDOW_S])[0])
            for name, statement in _LATENCIES.items()
        },
        UnfinishedWork(*_fetch_rows(_UNFINISHED)[0]),
        list(Switch.objects.order_by("group").values_list("group", flat=True)),
    )


def recent_operations() -> list[Operation]:
    newest = AuditEntry.objects.order_by("-id").values_list("at", "verb", "target", "actor")[:OPERATIONS_MAX]
    return [Operation(int(at.timestamp() * 1000), verb, target, actor) for at, verb, target, actor in newest]


def sold_out_times() -> list[int]:
    """When the sales without units left sold their last one."""
    return [row[0] for row in _fetch_rows(_SOLD_OUT)]


def _count_outcomes() -> list[tuple[str, float]]:
    return count_by("gateway_outcome", "state")


def _find_example(state: str) -> str:
    return next((row[0] for row in _fetch_rows(_EXAMPLE, [state])), "")


def _percentiles(statement: str) -> str:
    return (
        "SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms)::float, "
        f"percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms)::float FROM ({statement}) AS hop"
    )


def _fetch_rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
