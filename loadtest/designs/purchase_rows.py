"""Shell: the rows and events of one purchase, which every design writes in the same form.

Plain psycopg with a connection pool and prepared statements, because we compare designs, not ORMs.
`drop_constraints` removes every constraint that would stop a design from corrupting its own books.
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
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import INVENTORY_DECISIONS
from seckill.monitoring import traces

POOL_CONNECTIONS_MAX = 16
"""More connections would only wait for the same row."""
CONSTRAINTS = {
    "inventory_stock": ("inventory_stock_never_negative",),
    "inventory_hold": ("inventory_hold_pkey", "inventory_hold_one_active"),
    "inventory_ledger": ("inventory_ledger_version", "inventory_ledger_cause"),
    "inventory_decided": ("inventory_decided_pkey", "inventory_decided_place"),
}
"""Constraints and unique indexes by table: the last line of defence of the books."""


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
    """The position of a request in the log, or a made-up one for designs without a log."""

    cluster_id: str
    topic_id: str
    partition: int
    offset: int


_pool_lock = threading.Lock()


def pool(url: str) -> ConnectionPool[psycopg.Connection[Any]]:
    with _pool_lock:  # without it, two threads could create two pools
        return _pool(url)


@lru_cache(maxsize=1)
def _pool(url: str) -> ConnectionPool[psycopg.Connection[Any]]:
    return ConnectionPool(
        url, min_size=2, max_size=POOL_CONNECTIONS_MAX,
        kwargs={"autocommit": True, "prepare_threshold": 1, "connect_timeout": 5},
        check=ConnectionPool.check_connection, timeout=10, open=True,
    )  # fmt: skip


def made_up_place(request: PurchaseRequested) -> Place:
    """A position for a request of a design without a log."""
    return Place("design", "no log", 0, request.request_id.int >> 65)


def stock_of(db: psycopg.Connection[Any], request: PurchaseRequested, *, locked: bool) -> Stock | None:
    row = db.execute(_STOCK + (" FOR UPDATE" if locked else ""), [request.sale_id, request.sku]).fetchone()
    return None if row is None else Stock(*row)


def is_holder(db: psycopg.Connection[Any], request: PurchaseRequested) -> bool:
    return db.execute(_HOLDER, [request.sale_id, request.user_id]).fetchone() is not None


def decision_for(request: PurchaseRequested, stock: Stock | None, holder: bool) -> Decision:
    """The rule, which is the same in every design."""
    if stock is None:
        return Decision.INVALID
    if request.quantity > stock.cap:
        return Decision.LIMIT_REACHED
    if holder:
        return Decision.DUPLICATE
    return Decision.SOLD_OUT if stock.available < request.quantity else Decision.RESERVED


def write_decision(
    db: psycopg.Connection[Any],
    request: PurchaseRequested,
    stock: Stock,
    decision: Decision,
    version: int,
    place: Place,
) -> None:
    """Write decision, hold, ledger entry and event in the caller's transaction; the caller updates the stock row."""
    at_ms = time.time_ns() // 1_000_000
    db.execute(
        _DECIDED,
        [
            request.request_id, request.user_id, request.sale_id, request.sku, request.quantity, decision.value,
            version, at_ms, request.admitted_at_ms, request.deadline_ms, *place,
        ],
    )  # fmt: skip
    origin = RecordPosition("purchase.requests", place.partition, place.offset)
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


def overwrite_stock(db: psycopg.Connection[Any], stock: Stock, units: int) -> None:
    """Write the values that were read minus the units; this loses every concurrent update."""
    db.execute(
        "UPDATE inventory_stock SET available = %s, reserved = %s, version = %s WHERE id = %s",
        [stock.available - units, stock.reserved + units, stock.version + 1, stock.id],
    )


def subtract_units(db: psycopg.Connection[Any], stock: Stock, units: int) -> int:
    """Subtract from the current values, which keeps concurrent updates; the row's new version."""
    row = db.execute(
        "UPDATE inventory_stock SET available = available - %(units)s, reserved = reserved + %(units)s, "
        "version = version + 1 WHERE id = %(id)s RETURNING version",
        {"units": units, "id": stock.id},
    ).fetchone()
    assert row is not None
    return int(row[0])


def decided_before(db: psycopg.Connection[Any], request_id: UUID) -> bool:
    return db.execute("SELECT 1 FROM inventory_decided WHERE request_id = %s", [request_id]).fetchone() is not None


def drop_constraints(url: str) -> list[str]:
    """Drop all CONSTRAINTS; the names of those that existed."""
    with psycopg.connect(url, autocommit=True) as db:
        return drop_constraints_on(db)


def drop_constraints_on(db: psycopg.Connection[Any]) -> list[str]:
    """The same on an open connection. CASCADE drops the foreign keys that depend on a primary key."""
    dropped = []
    for table, names in CONSTRAINTS.items():
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
