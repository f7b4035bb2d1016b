"""SQL of a batch: one statement for many rows, with the rows as arrays.

A unique violation means that another transaction has written the same row: `ConcurrentUpdate` makes the consume loop
run the batch again. Lookups are LATERAL subqueries with LIMIT 1, so Postgres uses the index for each value even if its
statistics still describe a small table; a sequential scan would get slower with every batch of a sale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import IntegrityError
from psycopg.errors import UniqueViolation

from inventory.models import Stock
from inventory.states import Account, EntryKind, HoldState
from seckill.messaging import binary_sql
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.records import TransientFailure


class ConcurrentUpdate(TransientFailure):
    """Another transaction changed the same rows first."""


class LedgerMove(NamedTuple):
    """A ledger entry of settlement: units of one request from one account to another."""

    stock_id: int
    version: int
    debit: Account
    credit: Account
    units: int
    kind: EntryKind
    cause: UUID
    request_id: UUID


_INSERT_DECISIONS = """
INSERT INTO inventory_decided (request_id, user_id, sale_id, sku, quantity, decision, stock_version, decided_at_ms,
                               admitted_at_ms, deadline_ms, cluster_id, topic_id, partition, record_offset)
SELECT request_id, user_id, sale_id, sku, quantity, decision, stock_version, %b, admitted_at_ms, deadline_ms, %b, %b,
       %b, record_offset
FROM unnest(%b::uuid[], %b::text[], %b::bigint[], %b::text[], %b::int[], %b::text[], %b::bigint[], %b::bigint[],
            %b::bigint[], %b::bigint[])
     AS row (request_id, user_id, sale_id, sku, quantity, decision, stock_version, admitted_at_ms, deadline_ms,
             record_offset)
"""

_INSERT_REDELIVERIES = """
INSERT INTO inventory_redelivery (request_id, cluster_id, topic_id, partition, record_offset)
SELECT request_id, %b, %b, %b, record_offset FROM unnest(%b::uuid[], %b::bigint[]) AS row (request_id, record_offset)
ON CONFLICT DO NOTHING
"""

_INSERT_HOLDS = """
INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin)
SELECT request_id, stock_id, sale_id, user_id, quantity, 'reserved', origin::jsonb
FROM unnest(%b::uuid[], %b::bigint[], %b::bigint[], %b::text[], %b::int[], %b::text[])
     AS row (request_id, stock_id, sale_id, user_id, quantity, origin)
"""

_INSERT_GATE_RELEASES = """
INSERT INTO inventory_gate_sync (stock_id, request_id, action)
SELECT stock_id, request_id, 'release' FROM unnest(%b::bigint[], %b::uuid[]) AS row (stock_id, request_id)
"""

_INSERT_RESERVATIONS = """
INSERT INTO inventory_ledger (stock_id, version, debit, credit, units, kind, cause, request_id)
SELECT %b, version, 'available', 'reserved', units, 'reserve', request_id, request_id
FROM unnest(%b::bigint[], %b::bigint[], %b::uuid[]) AS row (version, units, request_id)
"""

# Ordered by event id, so that two transactions with the same events lock them in one order and cannot deadlock.
_INSERT_SETTLED_EVENTS = """
INSERT INTO inventory_settled (event_id, kind, request_id, posted)
SELECT event_id, kind, request_id, false
FROM unnest(%b::uuid[], %b::text[], %b::uuid[]) AS row (event_id, kind, request_id)
ORDER BY event_id
ON CONFLICT DO NOTHING
RETURNING event_id
"""
_MARK_EVENTS_POSTED = "UPDATE inventory_settled SET posted = true WHERE event_id = ANY(%b::uuid[])"

_INSERT_LEDGER_MOVES = """
INSERT INTO inventory_ledger (stock_id, version, debit, credit, units, kind, cause, request_id)
SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bigint[], %b::text[], %b::uuid[],
                     %b::uuid[])
"""
_UPDATE_HOLD_STATES = """
UPDATE inventory_hold SET state = row.after
FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS row (request_id, before, after)
WHERE inventory_hold.request_id = row.request_id AND inventory_hold.state = row.before
"""
_UPDATE_STOCKS = """
UPDATE inventory_stock AS stock
SET available = row.available, reserved = row.reserved, sold = row.sold, version = row.version
FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
     AS row (id, before, version, available, reserved, sold)
WHERE stock.id = row.id AND stock.version = row.before
"""

_FIND_DECIDED_REQUESTS = """
SELECT requested.request_id FROM unnest(%b::uuid[]) AS requested (request_id),
    LATERAL (SELECT FROM inventory_decided AS there WHERE there.request_id = requested.request_id LIMIT 1) AS found
"""
_FIND_ACTIVE_BUYERS = """
SELECT requested.user_id FROM unnest(%b::text[]) AS requested (user_id),
    LATERAL (SELECT FROM inventory_hold AS there
             WHERE there.sale_id = %b AND there.user_id = requested.user_id AND there.state IN ('reserved', 'sold')
             LIMIT 1) AS found
"""


@contextmanager
def unique_violations_as_conflicts() -> Iterator[None]:
    """Raise `ConcurrentUpdate` for a unique violation. Any other violated constraint is a bug, so its error stays."""
    try:
        yield
    except IntegrityError as fault:
        if isinstance(fault.__cause__, UniqueViolation):
            raise ConcurrentUpdate(str(fault)) from fault
        raise


def insert_decisions(
    now_ms: int, cluster_id: str, topic_id: str, partition: int, rows: Sequence[tuple[Any, ...]]
) -> None:
    """(request, user, sale, sku, quantity, decision, stock version, admitted_at_ms, deadline_ms, offset)."""
    columns = map(list, zip(*rows, strict=True))
    binary_sql.send_only(_INSERT_DECISIONS, [now_ms, cluster_id, topic_id, partition, *columns])


def insert_redeliveries(cluster_id: str, topic_id: str, partition: int, rows: Sequence[tuple[UUID, int]]) -> None:
    """(request, offset)."""
    if rows:
        requests, offsets = zip(*rows, strict=True)
        binary_sql.execute(_INSERT_REDELIVERIES, [cluster_id, topic_id, partition, list(requests), list(offsets)])


def insert_holds(rows: Sequence[tuple[UUID, int, int, str, int, RecordPosition]]) -> None:
    """(request, stock, sale, user, quantity, origin)."""
    if rows:
        requests, stocks, sales, users, quantities, origins = zip(*rows, strict=True)
        texts = [orjson.dumps(list(origin)).decode() for origin in origins]
        binary_sql.send_only(
            _INSERT_HOLDS, [list(requests), list(stocks), list(sales), list(users), list(quantities), texts]
        )


def insert_reservations(stock_id: int, entries: Sequence[tuple[int, int, UUID]]) -> None:
    """Ledger entries available → reserved: (version, units, request)."""
    if entries:
        versions, units, requests = zip(*entries, strict=True)
        binary_sql.send_only(_INSERT_RESERVATIONS, [stock_id, list(versions), list(units), list(requests)])


def insert_gate_releases(rows: Sequence[tuple[int, UUID]]) -> None:
    """(stock, request)."""
    if rows:
        stocks, requests = zip(*rows, strict=True)
        binary_sql.send_only(_INSERT_GATE_RELEASES, [list(stocks), list(requests)])


def insert_settled_events(events: Sequence[tuple[UUID, str, UUID]]) -> set[UUID]:
    """(event, kind, request). Returns the ids that were not in the table before."""
    if not events:
        return set()
    columns = [list(column) for column in zip(*events, strict=True)]
    return {row[0] for row in binary_sql.fetch(_INSERT_SETTLED_EVENTS, columns)}


def mark_events_posted(events: Sequence[UUID]) -> None:
    if events:
        binary_sql.send_only(_MARK_EVENTS_POSTED, [list(events)])


def update_stocks(changes: Sequence[tuple[Stock, int]]) -> None:
    """Locked rows with their new counts, and the version at which each was locked."""
    if not changes:
        return
    numbers = [
        (stock.id, before, stock.version, stock.available, stock.reserved, stock.sold) for stock, before in changes
    ]
    if binary_sql.execute(_UPDATE_STOCKS, [list(column) for column in zip(*numbers, strict=True)]) != len(changes):
        raise ConcurrentUpdate(f"stock {[stock.id for stock, _ in changes]} changed while it was locked")


def update_hold_states(changes: Sequence[tuple[UUID, HoldState, HoldState]]) -> None:
    """(request, state before, state after). The caller holds the locks of their stock rows."""
    if not changes:
        return
    columns = [list(column) for column in zip(*changes, strict=True)]
    if binary_sql.execute(_UPDATE_HOLD_STATES, columns) != len(changes):
        raise ConcurrentUpdate("a hold changed while its stock was locked")


def insert_ledger_moves(moves: Sequence[LedgerMove]) -> None:
    if moves:
        binary_sql.send_only(_INSERT_LEDGER_MOVES, [list(column) for column in zip(*moves, strict=True)])


def find_decided_requests(requests: Sequence[UUID]) -> set[UUID]:
    return {row[0] for row in binary_sql.fetch(_FIND_DECIDED_REQUESTS, [list(requests)])}


def find_active_buyers(sale_id: int, users: Sequence[str]) -> set[str]:
    """The users of this list that have an active purchase in the sale."""
    return {row[0] for row in binary_sql.fetch(_FIND_ACTIVE_BUYERS, [list(users), sale_id])}
