"""Shell: the rows and events of one purchase, as every design here writes them; how they are guarded is its own affair.

Plain psycopg, a pool of connections, prepared statements: what is compared are designs, not an ORM. `guards_off`
takes from a database all that would stop a design from breaking its own books.
"""

from __future__ import annotations

import json
import threading
import time
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool

from gateway.events import PurchaseRequested
from inventory.events import Decision, PurchaseDecided
from seckill.envelope import Origin
from seckill.streams import traces
from seckill.topics import INVENTORY_DECISIONS

POOL = 16
GUARDS = {
    "inventory_stock": ("inventory_stock_never_negative",),
    "inventory_hold": ("inventory_hold_pkey", "inventory_hold_one_active"),
    "inventory_ledger": ("inventory_ledger_version", "inventory_ledger_cause"),
    "inventory_decided": ("inventory_decided_pkey", "inventory_decided_place"),
}
"""Constraints (or unique indexes) by table: the last walls of the books."""


class Stock(NamedTuple):
    id: int
    available: int
    reserved: int
    version: int
    cap: int
    unit_price: int


_STOCK = "SELECT id, available, reserved, version, cap, unit_price FROM inventory_stock WHERE sale_id = %s AND sku = %s"
_HOLDER = "SELECT 1 FROM inventory_hold WHERE sale_id = %s AND user_id = %s AND state IN ('reserved', 'sold') LIMIT 1"
_DECIDED = """
INSERT INTO inventory_decided (request_id, user_id, sale_id, sku, quantity, decision, stock_version, decided_at_ms,
                               admitted_at_ms, deadline_ms, cluster_id, topic_id, partition, record_offset)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_HOLD = """
INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin)
VALUES (%s, %s, %s, %s, %s, 'reserved', %s)
"""
_LEDGER = """
INSERT INTO inventory_ledger (stock_id, version, debit, credit, units, kind, cause, request_id, at)
VALUES (%s, %s, 'available', 'reserved', %s, 'reserve', %s, %s, clock_timestamp())
"""
_OUTBOX = """
INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at)
VALUES ('inventory', %s, %s, %s, %s, %s, now())
"""


class Place(NamedTuple):
    """Where a request stands in the log, if it stands in one; else the rows count themselves."""

    cluster_id: str
    topic_id: str
    partition: int
    offset: int


_making = threading.Lock()


def pool(url: str) -> ConnectionPool[psycopg.Connection[Any]]:
    """Few connections: more of them only wait for the same row."""
    with _making:  # or two threads would make two
        return _pool(url)


@lru_cache(maxsize=1)
def _pool(url: str) -> ConnectionPool[psycopg.Connection[Any]]:
    return ConnectionPool(
        url, min_size=2, max_size=POOL, kwargs={"autocommit": True, "prepare_threshold": 1, "connect_timeout": 5},
        check=ConnectionPool.check_connection, timeout=10, open=True,
    )  # fmt: skip


def own_place(request: PurchaseRequested) -> Place:
    """Of a request that stands in no log."""
    return Place("peer", "no log", 0, request.request_id.int >> 65)


def stock_of(db: psycopg.Connection[Any], request: PurchaseRequested, *, locked: bool) -> Stock | None:
    row = db.execute(_STOCK + (" FOR UPDATE" if locked else ""), [request.sale_id, request.sku]).fetchone()
    return None if row is None else Stock(*row)


def is_holder(db: psycopg.Connection[Any], request: PurchaseRequested) -> bool:
    return db.execute(_HOLDER, [request.sale_id, request.user_id]).fetchone() is not None


def rule(request: PurchaseRequested, stock: Stock | None, holder: bool) -> Decision:
    """What every design means by a decision."""
    if stock is None:
        return Decision.INVALID
    if request.quantity > stock.cap:
        return Decision.LIMIT_REACHED
    if holder:
        return Decision.DUPLICATE
    return Decision.SOLD_OUT if stock.available < request.quantity else Decision.RESERVED


def write(
    db: psycopg.Connection[Any],
    request: PurchaseRequested,
    stock: Stock,
    decision: Decision,
    version: int,
    place: Place,
) -> None:
    """Decision, hold, ledger entry and event; the stock row is the caller's. In the caller's transaction."""
    at_ms = time.time_ns() // 1_000_000
    db.execute(
        _DECIDED,
        [
            request.request_id, request.user_id, request.sale_id, request.sku, request.quantity, decision.value,
            version, at_ms, request.admitted_at_ms, request.deadline_ms, *place,
        ],
    )  # fmt: skip
    origin = Origin("purchase.requests", place.partition, place.offset)
    if decision is Decision.RESERVED:
        db.execute(
            _HOLD,
            [
                request.request_id, stock.id, request.sale_id, request.user_id, request.quantity,
                json.dumps(list(origin)),
            ],
        )  # fmt: skip
        db.execute(_LEDGER, [stock.id, version, request.quantity, request.request_id, request.request_id])
    decided = PurchaseDecided(
        request.request_id, request.user_id, request.sale_id, request.sku, request.quantity, stock.unit_price,
        decision, version, at_ms,
    ).envelope(origin)  # fmt: skip
    headers = json.dumps({traces.HEADER: traces.child(decided.event_id, decided.cause)})
    db.execute(_OUTBOX, [INVENTORY_DECISIONS.name, request.user_id, decided.event_id, decided.encode(), headers])


def overwrite(db: psycopg.Connection[Any], stock: Stock, units: int) -> None:
    """What was read, less the units; whatever somebody else has written meanwhile is gone."""
    db.execute(
        "UPDATE inventory_stock SET available = %s, reserved = %s, version = %s WHERE id = %s",
        [stock.available - units, stock.reserved + units, stock.version + 1, stock.id],
    )


def take(db: psycopg.Connection[Any], stock: Stock, units: int) -> int:
    """Relative to what is there, whatever that is; the row's new version."""
    row = db.execute(
        "UPDATE inventory_stock SET available = available - %(units)s, reserved = reserved + %(units)s, "
        "version = version + 1 WHERE id = %(id)s RETURNING version",
        {"units": units, "id": stock.id},
    ).fetchone()
    assert row is not None
    return int(row[0])


def decided_before(db: psycopg.Connection[Any], request_id: UUID) -> bool:
    return db.execute("SELECT 1 FROM inventory_decided WHERE request_id = %s", [request_id]).fetchone() is not None


def guards_off(db: psycopg.Connection[Any]) -> list[str]:
    """Drop the guards; the names of those that were there. Foreign keys go with what they lean on."""
    dropped = []
    for table, names in GUARDS.items():
        for name in names:
            is_constraint = db.execute("SELECT 1 FROM pg_constraint WHERE conname = %s", [name]).fetchone()
            is_index = db.execute("SELECT 1 FROM pg_class WHERE relkind = 'i' AND relname = %s", [name]).fetchone()
            if is_constraint:
                db.execute(
                    sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE").format(
                        sql.Identifier(table), sql.Identifier(name)
                    )
                )
            elif is_index:
                db.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
            else:
                continue
            dropped.append(name)
    return dropped
