"""The statements of a batch: many rows each, as arrays.

A row that is there already means that somebody else decided the same meanwhile: `Overtaken`, and the batch starts
again with what is true by then. What is looked for is looked for one by one, each in its index, whatever Postgres
believes of the size of the table: a plan that reads all of it costs more with each batch of a sale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import IntegrityError, OperationalError
from psycopg.errors import UniqueViolation

from inventory.models import Stock
from seckill.envelope import Origin
from seckill.streams import statements


class Overtaken(OperationalError):
    """Another transaction was faster; passing, like a serialization failure."""


class Move(NamedTuple):
    """A ledger entry of settlement: units of one request from one account to another."""

    stock_id: int
    version: int
    debit: str
    credit: str
    units: int
    kind: str
    cause: UUID
    request_id: UUID


_DECIDED = """
INSERT INTO inventory_decided (request_id, user_id, sale_id, sku, quantity, decision, stock_version, decided_at_ms,
                               admitted_at_ms, deadline_ms, cluster_id, topic_id, partition, record_offset)
SELECT request_id, user_id, sale_id, sku, quantity, decision, stock_version, %b, admitted_at_ms, deadline_ms, %b, %b,
       %b, record_offset
FROM unnest(%b::uuid[], %b::text[], %b::bigint[], %b::text[], %b::int[], %b::text[], %b::bigint[], %b::bigint[],
            %b::bigint[], %b::bigint[])
     AS row (request_id, user_id, sale_id, sku, quantity, decision, stock_version, admitted_at_ms, deadline_ms,
             record_offset)
"""

_REDELIVERED = """
INSERT INTO inventory_redelivery (request_id, cluster_id, topic_id, partition, record_offset)
SELECT request_id, %b, %b, %b, record_offset FROM unnest(%b::uuid[], %b::bigint[]) AS row (request_id, record_offset)
ON CONFLICT DO NOTHING
"""

_HOLDS = """
INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin)
SELECT request_id, stock_id, sale_id, user_id, quantity, 'reserved', origin::jsonb
FROM unnest(%b::uuid[], %b::bigint[], %b::bigint[], %b::text[], %b::int[], %b::text[])
     AS row (request_id, stock_id, sale_id, user_id, quantity, origin)
"""

_GATE_SYNC = """
INSERT INTO inventory_gate_sync (stock_id, request_id, action)
SELECT stock_id, request_id, 'release' FROM unnest(%b::bigint[], %b::uuid[]) AS row (stock_id, request_id)
"""

_RESERVED = """
INSERT INTO inventory_ledger (stock_id, version, debit, credit, units, kind, cause, request_id, at)
SELECT %b, version, 'available', 'reserved', units, 'reserve', request_id, request_id, now()
FROM unnest(%b::bigint[], %b::bigint[], %b::uuid[]) AS row (version, units, request_id)
"""

# In the order of event ids: two transactions that insert the same events never wait for each other in a circle.
_SETTLED = """
INSERT INTO inventory_settled (event_id, kind, request_id, posted)
SELECT event_id, kind, request_id, false
FROM unnest(%b::uuid[], %b::text[], %b::uuid[]) AS row (event_id, kind, request_id)
ORDER BY event_id
ON CONFLICT DO NOTHING
RETURNING event_id
"""
_POSTED = "UPDATE inventory_settled SET posted = true WHERE event_id = ANY(%b::uuid[])"

_MOVED = """
INSERT INTO inventory_ledger (stock_id, version, debit, credit, units, kind, cause, request_id, at)
SELECT *, now() FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bigint[], %b::text[], %b::uuid[],
                            %b::uuid[])
"""
_MOVE_HOLDS = """
UPDATE inventory_hold SET state = row.after
FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS row (request_id, before, after)
WHERE inventory_hold.request_id = row.request_id AND inventory_hold.state = row.before
"""
_MOVE_STOCKS = """
UPDATE inventory_stock AS stock
SET available = row.available, reserved = row.reserved, sold = row.sold, version = row.version
FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
     AS row (id, before, version, available, reserved, sold)
WHERE stock.id = row.id AND stock.version = row.before
"""

_DECIDED_BEFORE = """
SELECT asked.request_id FROM unnest(%b::uuid[]) AS asked (request_id),
    LATERAL (SELECT FROM inventory_decided AS there WHERE there.request_id = asked.request_id LIMIT 1) AS found
"""
_HOLDERS = """
SELECT asked.user_id FROM unnest(%b::text[]) AS asked (user_id),
    LATERAL (SELECT FROM inventory_hold AS there
             WHERE there.sale_id = %b AND there.user_id = asked.user_id AND there.state IN ('reserved', 'sold')
             LIMIT 1) AS found
"""


@contextmanager
def overtaken() -> Iterator[None]:
    """What is there already says so as `Overtaken`; another constraint that stops a row is somebody's mistake."""
    try:
        yield
    except IntegrityError as fault:
        if isinstance(fault.__cause__, UniqueViolation):
            raise Overtaken(str(fault)) from fault
        raise


def insert_decided(
    now_ms: int, cluster_id: str, topic_id: str, partition: int, rows: Sequence[tuple[Any, ...]]
) -> None:
    """The rows as the statement names them."""
    columns = map(list, zip(*rows, strict=True))
    statements.send(_DECIDED, [now_ms, cluster_id, topic_id, partition, *columns])


def insert_redelivered(cluster_id: str, topic_id: str, partition: int, rows: Sequence[tuple[UUID, int]]) -> None:
    if rows:
        statements.execute(
            _REDELIVERED,
            [cluster_id, topic_id, partition, [request for request, _ in rows], [offset for _, offset in rows]],
        )


def insert_holds(rows: Sequence[tuple[UUID, int, int, str, int, Origin]]) -> None:
    """(request, stock, sale, user, quantity, origin)."""
    if rows:
        requests, stocks, sales, users, quantities, origins = zip(*rows, strict=True)
        texts = [orjson.dumps(list(origin)).decode() for origin in origins]
        statements.send(_HOLDS, [list(requests), list(stocks), list(sales), list(users), list(quantities), texts])


def insert_reserved(stock_id: int, entries: Sequence[tuple[int, int, UUID]]) -> None:
    """available → reserved: (version, units, request)."""
    if entries:
        versions, units, requests = zip(*entries, strict=True)
        statements.send(_RESERVED, [stock_id, list(versions), list(units), list(requests)])


def insert_gate_sync(rows: Sequence[tuple[int, UUID]]) -> None:
    if rows:
        statements.send(_GATE_SYNC, [[stock for stock, _ in rows], [request for _, request in rows]])


def insert_settled(events: Sequence[tuple[UUID, str, UUID]]) -> set[UUID]:
    """(event, kind, request): those that were not settled before."""
    if not events:
        return set()
    columns = [list(column) for column in zip(*events, strict=True)]
    return {row[0] for row in statements.fetch(_SETTLED, columns)}


def mark_posted(events: Sequence[UUID]) -> None:
    if events:
        statements.send(_POSTED, [list(events)])


def move_stocks(changes: Sequence[tuple[Stock, int]]) -> None:
    """Locked rows with their new counts, and the version each was locked at."""
    if not changes:
        return
    numbers = [
        (stock.id, before, stock.version, stock.available, stock.reserved, stock.sold) for stock, before in changes
    ]
    if statements.execute(_MOVE_STOCKS, [list(column) for column in zip(*numbers, strict=True)]) != len(changes):
        raise Overtaken(f"stock {[stock.id for stock, _ in changes]} changed while it was locked")


def move_holds(changes: Sequence[tuple[UUID, str, str]]) -> None:
    """(request, state before, state after); only while their stock rows are locked."""
    if not changes:
        return
    if statements.execute(_MOVE_HOLDS, [list(column) for column in zip(*changes, strict=True)]) != len(changes):
        raise Overtaken("a hold changed while its stock was locked")


def insert_moves(moves: Sequence[Move]) -> None:
    if moves:
        statements.send(_MOVED, [list(column) for column in zip(*moves, strict=True)])


def decided_before(requests: Sequence[UUID]) -> set[UUID]:
    return {row[0] for row in statements.fetch(_DECIDED_BEFORE, [list(requests)])}


def holders(sale_id: int, users: Sequence[str]) -> set[str]:
    """Who of these has an active purchase in the sale."""
    return {row[0] for row in statements.fetch(_HOLDERS, [list(users), sale_id])}


def now_ms() -> int:
    """The database's clock."""
    return int(statements.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", [])[0][0])
