"""What has to be counted in tables: sales, outcomes, how long each hop takes, what waits. It only reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import connection

from seckill.audit.models import Entry
from seckill.metrics import counted_by

LAST_S = 60
MOST_WORDS = 20

_SALES = """
SELECT s.id, s.name, s.state, s.opens_at_ms, s.closes_at_ms, t.sku, t.declared, t.available, t.reserved, t.sold,
       coalesce(a.adjusted, 0)::bigint
FROM inventory_sale s JOIN inventory_stock t ON t.sale_id = s.id
LEFT JOIN (SELECT stock_id, sum(CASE WHEN debit = 'supply' THEN units ELSE -units END) AS adjusted
           FROM inventory_ledger WHERE kind = 'adjust' GROUP BY stock_id) a ON a.stock_id = t.id
ORDER BY s.id DESC LIMIT 50
"""
_EXAMPLE = "SELECT request_id::text FROM gateway_outcome WHERE state = %s LIMIT 1"
_HOPS = {
    "inventory": "SELECT decided_at_ms - admitted_at_ms AS took FROM inventory_decided "
    "WHERE decided_at_ms > extract(epoch FROM now()) * 1000 - %s * 1000",
    "orders": "SELECT extract(epoch FROM o.placed_at) * 1000 - d.decided_at_ms AS took FROM orders_order o "
    "JOIN inventory_decided d ON d.request_id = o.request_id WHERE o.placed_at > now() - %s * interval '1 second'",
    "settlement": "SELECT extract(epoch FROM l.at - t.at) * 1000 AS took FROM inventory_ledger l "
    "JOIN orders_transition t ON t.event_id = l.cause WHERE l.at > now() - %s * interval '1 second'",
    "notify": "SELECT extract(epoch FROM d.done_at - t.at) * 1000 AS took FROM notifications_delivery d "
    "JOIN orders_transition t ON t.event_id = d.event_id WHERE d.done_at > now() - %s * interval '1 second'",
}
_SOLD_OUT = """
SELECT (extract(epoch FROM l.at) * 1000)::bigint
FROM inventory_stock t JOIN inventory_ledger l ON l.stock_id = t.id AND l.version = t.version
WHERE t.available = 0 AND t.reserved = 0 AND l.credit = 'sold'
"""
_WAITING = """
SELECT (SELECT count(*) FROM streams_outbox), (SELECT count(*) FROM notifications_delivery WHERE state = 'due'),
       (SELECT count(*) FROM streams_dead_letter WHERE state IN ('open', 'quarantined')),
       (SELECT count(*) FROM orders_payment WHERE state = 'refunding')
"""


class Sale(NamedTuple):
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


class Took(NamedTuple):
    """Of those of the last minute; milliseconds."""

    purchases: int
    p50_ms: float | None
    p99_ms: float | None


class Counted(NamedTuple):
    sales: list[Sale]
    outcomes: list[tuple[str, int, str]]
    took: dict[str, Took]
    unpublished: int
    deliveries_due: int
    dead_letters: int
    refunding: int
    off: list[str]


def count() -> Counted:
    took = {name: Took(*_rows(_percentiles(statement), [LAST_S])[0]) for name, statement in _HOPS.items()}
    off = [row[0] for row in _rows("SELECT consumer_group FROM streams_switch ORDER BY 1")]
    unpublished, due, dead, refunding = _rows(_WAITING)[0]
    outcomes = [(state, int(number), _example(state)) for state, number in counted_by("gateway_outcome", "state")]
    outcomes.sort(key=lambda outcome: -outcome[1])
    return Counted([Sale(*row) for row in _rows(_SALES)], outcomes, took, unpublished, due, dead, refunding, off)


def _example(state: str) -> str:
    return next((row[0] for row in _rows(_EXAMPLE, [state])), "")


def spoken() -> list[tuple[int, str]]:
    """The last words of operators: when, and what."""
    newest = Entry.objects.order_by("-id").values_list("at", "verb", "target")[:MOST_WORDS]
    return [(int(at.timestamp() * 1000), f"{verb} {target}"[:60]) for at, verb, target in newest]


def sold_out() -> list[int]:
    """When each sale sold its last unit, of those that have none left."""
    return [row[0] for row in _rows(_SOLD_OUT)]


def _percentiles(statement: str) -> str:
    return (
        "SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY took)::float, "
        f"percentile_cont(0.99) WITHIN GROUP (ORDER BY took)::float FROM ({statement}) AS hop"
    )


def _rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
