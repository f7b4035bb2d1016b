"""The statements of a batch: many rows each, with binary arrays, and a look at how many there were.

A row that is there already means that somebody else decided the same meanwhile: `Overtaken`, and the batch starts
again with what is true by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection

from inventory.models import LedgerEntry
from seckill.envelope import Origin


class Overtaken(OperationalError):
    """Another transaction was faster; passing, like a serialization failure."""


_DECIDED = """
INSERT INTO inventory_decided (request_id, user_id, sale_id, sku, quantity, decision, stock_version, decided_at_ms,
                               admitted_at_ms, deadline_ms, cluster_id, topic_id, partition, record_offset)
SELECT request_id, user_id, sale_id, sku, quantity, decision, stock_version, %s, admitted_at_ms, deadline_ms, %s, %s,
       %s, record_offset
FROM unnest(%s::uuid[], %s::text[], %s::bigint[], %s::text[], %s::int[], %s::text[], %s::bigint[], %s::bigint[],
            %s::bigint[], %s::bigint[])
     AS row (request_id, user_id, sale_id, sku, quantity, decision, stock_version, admitted_at_ms, deadline_ms,
             record_offset)
ON CONFLICT DO NOTHING
"""

_REDELIVERED = """
INSERT INTO inventory_redelivery (request_id, cluster_id, topic_id, partition, record_offset)
SELECT request_id, %s, %s, %s, record_offset FROM unnest(%s::uuid[], %s::bigint[]) AS row (request_id, record_offset)
ON CONFLICT DO NOTHING
"""

_HOLDS = """
INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin)
SELECT request_id, stock_id, sale_id, user_id, quantity, 'reserved', origin
FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::text[], %s::int[], %s::jsonb[])
     AS row (request_id, stock_id, sale_id, user_id, quantity, origin)
ON CONFLICT DO NOTHING
"""

_GATE_SYNC = """
INSERT INTO inventory_gate_sync (stock_id, request_id, action)
SELECT stock_id, request_id, 'release' FROM unnest(%s::bigint[], %s::uuid[]) AS row (stock_id, request_id)
"""


def insert_decided(
    now_ms: int, cluster_id: str, topic_id: str, partition: int, columns: Sequence[Sequence[Any]]
) -> None:
    """`columns` as the statement names them, one list each."""
    _insert(_DECIDED, [now_ms, cluster_id, topic_id, partition, *columns], len(columns[0]))


def insert_redelivered(cluster_id: str, topic_id: str, partition: int, rows: Sequence[tuple[UUID, int]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(
                _REDELIVERED,
                [cluster_id, topic_id, partition, [request for request, _ in rows], [offset for _, offset in rows]],
            )


def insert_holds(rows: Sequence[tuple[UUID, int, int, str, int, Origin]]) -> None:
    """(request, stock, sale, user, quantity, origin)."""
    if rows:
        requests, stocks, sales, users, quantities, origins = zip(*rows, strict=True)
        texts = [json.dumps(list(origin)) for origin in origins]
        _insert(_HOLDS, [list(requests), list(stocks), list(sales), list(users), list(quantities), texts], len(rows))


def insert_ledger(entries: Iterable[LedgerEntry]) -> None:
    LedgerEntry.objects.bulk_create(entries)


def insert_gate_sync(rows: Sequence[tuple[int, UUID]]) -> None:
    if rows:
        _insert(_GATE_SYNC, [[stock for stock, _ in rows], [request for _, request in rows]], len(rows))


def decided_before(requests: Sequence[UUID]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT request_id FROM inventory_decided WHERE request_id = ANY(%s)", [list(requests)])
        return {row[0] for row in cursor.fetchall()}


def holders(sale_id: int, users: Sequence[str]) -> set[str]:
    """Who of these has an active purchase in the sale."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT user_id FROM inventory_hold "
            "WHERE sale_id = %s AND user_id = ANY(%s) AND state IN ('reserved', 'sold')",
            [sale_id, list(users)],
        )
        return {row[0] for row in cursor.fetchall()}


def now_ms() -> int:
    """The time of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM now()) * 1000)::bigint")
        return int(cursor.fetchone()[0])


def _insert(statement: str, parameters: Sequence[Any], count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        if cursor.rowcount != count:
            raise Overtaken(f"{count - cursor.rowcount} of {count} rows were there already")
