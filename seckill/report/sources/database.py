"""Shell: read the tables of all services in one read-only REPEATABLE READ snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import intern
from typing import Any, NamedTuple

import psycopg

from seckill.report import rows
from seckill.report.evidence_sources import Source
from seckill.report.rows import REQUESTS, RecordPosition

ROWS_PER_FETCH = 20_000
_MS = "(extract(epoch FROM {}) * 1000)::bigint"


def _ms(column: str) -> str:
    return _MS.format(column)


def _origin(column: str) -> str:
    """SQL for topic, partition and offset out of a JSON list; NULLs if the column is NULL."""
    return f"{column}->>0, ({column}->>1)::int, ({column}->>2)::bigint"


def _position(origin: tuple[Any, ...]) -> RecordPosition | None:
    topic, partition, offset = origin
    return None if topic is None else RecordPosition(intern(topic), partition, offset)


_TOPIC = f"coalesce(log.topic, '{REQUESTS}')"
_WITH_TOPIC = (
    " AS row LEFT JOIN (SELECT topic_id, min(topic) AS topic FROM streams_offset GROUP BY topic_id) AS log"
    " ON log.topic_id = row.topic_id"
)


class Query(NamedTuple):
    """Fills one `field` of the evidence. `ids` are the columns that hold ids."""

    field: str
    source: Source
    sql: str
    row: Callable[..., Any]
    ids: tuple[int, ...] = ()


QUERIES = (
    Query("sales", Source.STOCK, "SELECT id, state, opens_at_ms, closes_at_ms FROM inventory_sale", rows.Sale),
    Query(
        "stocks",
        Source.STOCK,
        "SELECT id, sale_id, sku, declared, available, reserved, sold, version, gate_epoch, unit_price, cap, "
        "gate_retired FROM inventory_stock",
        rows.Stock,
    ),
    Query(
        "ledger",
        Source.STOCK,
        "SELECT stock_id, version, debit, credit, units, kind, cause::text, request_id::text, " + _ms("at") + " "
        "FROM inventory_ledger ORDER BY stock_id, version",
        rows.LedgerEntry,
        (6, 7),
    ),
    Query(
        "holds",
        Source.STOCK,
        "SELECT request_id::text, stock_id, sale_id, user_id, quantity, state, " + _origin("origin") + " "
        "FROM inventory_hold",
        lambda *row: rows.Hold._make((*row[:6], _position(row[6:]))),
        (0,),
    ),
    Query(
        "decisions",
        Source.ORDERS,
        "SELECT request_id::text, user_id, sale_id, sku, quantity, decision, stock_version, decided_at_ms, "
        f"admitted_at_ms, deadline_ms, {_TOPIC}, partition, record_offset FROM inventory_decided{_WITH_TOPIC}",
        lambda *row: rows.Decision._make((*row[:10], RecordPosition(*row[10:]))),
        (0,),
    ),
    Query(
        "redeliveries",
        Source.ORDERS,
        f"SELECT request_id::text, {_TOPIC}, partition, record_offset FROM inventory_redelivery{_WITH_TOPIC}",
        lambda *row: rows.Redelivery(row[0], RecordPosition(*row[1:])),
        (0,),
    ),
    Query(
        "settlements",
        Source.ORDERS,
        "SELECT event_id::text, kind, request_id::text, posted FROM inventory_settled",
        rows.Settlement,
        (0, 2),
    ),
    Query(
        "gate_releases_due",
        Source.STOCK,
        "SELECT request_id::text FROM inventory_gate_sync",
        lambda request: request,
        (0,),
    ),
    Query(
        "orders",
        Source.ORDERS,
        "SELECT id::text, request_id::text, user_id, sale_id, quantity, amount, state, "
        f"{_ms('placed_at')}, {_ms('pay_before')}, sku, cause::text, {_origin('origin')} FROM orders_order",
        lambda *row: rows.Order._make((*row[:11], _position(row[11:]))),
        (0, 1, 10),
    ),
    Query(
        "transitions",
        Source.ORDERS,
        f"SELECT order_id::text, before, after, event_id::text, {_ms('at')} FROM orders_transition ORDER BY id",
        rows.Transition,
        (0, 3),
    ),
    Query(
        "consumed_decisions",
        Source.ORDERS,
        "SELECT event_id::text, request_id::text, decision FROM orders_read_decision",
        rows.ConsumedDecision,
        (0, 1),
    ),
    Query(
        "payments",
        Source.PAYMENTS,
        "SELECT id::text, order_id::text, amount, state, captured_at IS NOT NULL, refunded_at IS NOT NULL, "
        f"{_ms('opened_at')}, late FROM orders_payment",
        rows.Payment,
        (0, 1),
    ),
    Query(
        "orphan_payments",
        Source.PAYMENTS,
        "SELECT payment_id::text FROM orders_discrepancy WHERE state IN ('owed', 'settled')",
        lambda payment: payment,
        (0,),
    ),
    Query(
        "callbacks",
        Source.PAYMENTS,
        "SELECT callback_id, payment_id::text, kind FROM orders_callback",
        rows.Callback,
        (1,),
    ),
    Query(
        "deliveries",
        Source.MESSAGES,
        f"SELECT event_id::text, channel, user_id, state, attempts, {_ms('done_at')}, text FROM notifications_delivery",
        rows.Delivery,
        (0,),
    ),
    Query(
        "outcomes",
        Source.ORDERS,
        "SELECT request_id::text, user_id, state, order_id::text, sale_id, pay_before_ms, may_buy_again "
        "FROM gateway_outcome",
        rows.Outcome,
        (0, 3),
    ),
    Query(
        "group_offsets",
        Source.ORDERS,
        "SELECT consumer_group, topic, partition, next_offset FROM streams_offset",
        rows.GroupOffset,
    ),
    Query(
        "operator_actions",
        Source.ORDERS,
        f"SELECT {_ms('at')}, verb, target, arguments, result FROM audit_entry ORDER BY id",
        rows.OperatorAction,
    ),
    Query(
        "dead_letters",
        Source.ORDERS,
        "SELECT consumer_group, topic, partition, record_offset, state, reason, "
        f"{_ms('died_at')} FROM streams_dead_letter",
        lambda *row: rows.DeadLetter(row[0], row[1], RecordPosition(intern(row[1]), row[2], row[3]), *row[4:]),
    ),
    Query(
        "silences",
        Source.FAULTS,
        "SELECT name, kind, began_at_ms, ended_at_ms, ended_by FROM console_silence ORDER BY began_at_ms, name",
        rows.Silence,
    ),
)
_UNPUBLISHED = "SELECT writer, count(*) FROM streams_outbox GROUP BY writer"
_MIXED_LOGS = (
    "SELECT topic FROM streams_offset GROUP BY topic HAVING count(DISTINCT (cluster_id, topic_id)) > 1 ORDER BY topic"
)
_TAKEOVERS = "SELECT coalesce(sum(epoch - 1), 0) FROM streams_offset WHERE epoch > 1"
_PRUNED = """
SELECT to_char(pruned_to AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC', count(*)
FROM (SELECT max(pruned_to) AS pruned_to FROM streams_retention) AS retention
JOIN inventory_sale ON opens_at_ms < extract(epoch FROM pruned_to) * 1000
GROUP BY pruned_to
"""
_NOW = f"SELECT {_ms('now()')}"


class Snapshot(NamedTuple):
    taken_at_ms: int
    fields: dict[str, Any]
    counts: dict[Source, dict[str, int]]  # by source and field
    faults: list[str]  # of Source.ORDERS


def read_snapshot(url: str) -> Snapshot:
    """Raises `psycopg.Error` if the database cannot be read."""
    fields: dict[str, Any] = {}
    counts: dict[Source, dict[str, int]] = {}
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        taken_at_ms = _number(connection.execute(_NOW).fetchone())
        for query in QUERIES:
            found = list(_rows(connection, query))
            fields[query.field] = found
            counts.setdefault(query.source, {})[query.field] = len(found)
        fields["unpublished"] = {row[0]: row[1] for row in connection.execute(_UNPUBLISHED)}
        fields["partition_takeovers"] = _number(connection.execute(_TAKEOVERS).fetchone())
        mixed = [
            f"the tables hold rows of more than one topic named {row[0]}" for row in connection.execute(_MIXED_LOGS)
        ]
        mixed += [
            f"rows up to {row[0]} were pruned, and {row[1]} sales opened before then"
            for row in connection.execute(_PRUNED)
        ]
    return Snapshot(taken_at_ms, fields, counts, mixed)


def _rows(connection: psycopg.Connection, query: Query) -> Iterator[Any]:
    """Uses a server-side cursor, because a table may be larger than memory."""
    with connection.cursor(f"report_{query.field}", binary=True) as cursor:
        cursor.itersize = ROWS_PER_FETCH
        for row in cursor.execute(query.sql):
            values = list(row)
            for column in query.ids:
                if values[column] is not None:
                    values[column] = intern(values[column])
            yield query.row(*values)


def read_offsets(url: str) -> tuple[list[rows.GroupOffset], int]:
    """The current offsets of all groups, and the number of unpublished events."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        query = next(query for query in QUERIES if query.field == "group_offsets")
        found = [rows.GroupOffset(*row) for row in connection.execute(query.sql)]
        return found, _number(connection.execute("SELECT count(*) FROM streams_outbox").fetchone())


def count_unsettled(url: str) -> int:
    """Open work that is not visible in any topic: due deliveries, open payments, owed refunds, gate releases."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        return _number(
            connection.execute(
                "SELECT (SELECT count(*) FROM notifications_delivery WHERE state = 'due')"
                " + (SELECT count(*) FROM orders_payment WHERE state IN ('open', 'refunding'))"
                " + (SELECT count(*) FROM orders_discrepancy WHERE state = 'owed')"
                " + (SELECT count(*) FROM inventory_gate_sync)"
            ).fetchone()
        )


def _number(row: tuple[Any, ...] | None) -> int:
    assert row is not None
    return int(row[0])
