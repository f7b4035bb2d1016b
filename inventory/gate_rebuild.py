"""Bring the gate back in line with the stock row: send it what a commit owes it, or rebuild it in a new epoch.

Both run after commits, and again from the sweep if a process died in between, so each step may be repeated.

A new epoch is built mostly without the row's lock: first the active holds, a slice at a time, then the requests whose
units have moved since, read from the ledger. Only the last few changes are added under the lock, so a sale with
millions of holds blocks neither the row nor Redis for long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from django.db import connection, transaction
from redis.exceptions import RedisError

from inventory import gate
from inventory.locks import lock_stocks
from inventory.models import GateSync, Stock
from inventory.states import SaleState

log = logging.getLogger(__name__)

RELEASES_PER_CALL_MAX = 1000
SLICE_HOLDS_MAX = 1000
CONSUMER_REBUILD_UNITS_MAX = 20_000
"""A consumer rebuilds the gate itself only if no more units than this are held. The sweep rebuilds larger ones."""
LOCKED_CHANGES_MAX = 500
"""The row is locked once no more changes than this are missing, or after `CATCH_UP_ROUNDS_MAX` rounds."""
CATCH_UP_ROUNDS_MAX = 20

_SELECT_HOLDS = """
SELECT user_id, request_id, quantity FROM inventory_hold
WHERE sale_id = %s AND stock_id = %s AND state IN ('reserved', 'sold') AND user_id > %s
ORDER BY user_id LIMIT %s
"""
_SELECT_CHANGES = """
SELECT changed.request_id,
       coalesce((SELECT quantity FROM inventory_hold
                 WHERE request_id = changed.request_id AND state IN ('reserved', 'sold')), 0)
FROM (SELECT DISTINCT request_id FROM inventory_ledger
      WHERE stock_id = %s AND version > %s AND request_id IS NOT NULL) AS changed
"""
# SKIP LOCKED: two processes that delete the same rows do not wait for each other.
_DELETE_SENT = """
DELETE FROM inventory_gate_sync WHERE id IN (
    SELECT id FROM inventory_gate_sync WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED
)
"""


def rebuild_after_commit(stock_id: int, seen_epoch: int) -> None:
    """Rebuild the gate unless another process has. If this process dies first, the sweep does it (`gate_owed`)."""
    try:
        stock = _get_stock(stock_id)
        if stock.reserved + stock.sold <= CONSUMER_REBUILD_UNITS_MAX:
            rebuild_gate(stock_id, seen_epoch)
    except RedisError as fault:
        log.warning("gate not rebuilt", extra={"stock": stock_id, "reason": str(fault)})


def rebuild_gate(
    stock_id: int, seen_epoch: int, after_slice: Callable[[], object] = lambda: None, *, is_patient: bool = False
) -> bool:
    """Open a new epoch built from the row and its active holds. False: another process has already done it.

    `after_slice` is called after each slice of holds. `is_patient`: see `gate.EpochBuilder`.
    """
    stock = _get_stock(stock_id)
    if not _is_rebuild_due(stock, seen_epoch):
        return False
    builder, built_version = gate.EpochBuilder(stock.sale_id, stock.sku, is_patient=is_patient), stock.version
    builder.add_grants([])
    for holds in _read_holds(stock):
        builder.add_grants(holds)
        after_slice()
    for _ in range(CATCH_UP_ROUNDS_MAX):
        version = _get_stock(stock_id).version
        if version - built_version <= LOCKED_CHANGES_MAX:
            break
        builder.add_grants(_read_changes(stock_id, built_version))
        built_version = version
    with transaction.atomic():
        stock = lock_stocks([stock_id])[stock_id]
        if not _is_rebuild_due(stock, seen_epoch):
            return False
        if stock.version > built_version:
            builder.add_grants(_read_changes(stock_id, built_version), is_locked=True)
        epoch = stock.gate_epoch + 1
        builder.open(epoch, stock.available)
        Stock.objects.filter(id=stock_id).update(gate_epoch=epoch, gate_owed=False, gate_retired=False)
    log.info("gate rebuilt", extra={"stock": stock_id, "epoch": epoch, "free": stock.available})
    return True


def _get_stock(stock_id: int) -> Stock:
    return Stock.objects.select_related("sale").get(id=stock_id)


def _is_rebuild_due(stock: Stock, seen_epoch: int) -> bool:
    """A closed sale needs no gate, because every request is rejected."""
    return stock.sale.state != SaleState.CLOSED and (stock.gate_epoch == seen_epoch or stock.gate_owed)


def _read_holds(stock: Stock) -> Iterator[list[tuple[UUID, int]]]:
    """Active holds in slices, ordered by user. Changes after a slice was read are in the ledger."""
    last = ""
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_SELECT_HOLDS, [stock.sale_id, stock.id, last, SLICE_HOLDS_MAX])
            rows = cursor.fetchall()
        if rows:
            yield [(request_id, quantity) for _, request_id, quantity in rows]
        if len(rows) < SLICE_HOLDS_MAX:
            return
        last = rows[-1][0]


def _read_changes(stock_id: int, after_version: int) -> list[tuple[UUID, int]]:
    """Requests whose units have moved since that version, with the units they hold now (may be 0)."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_CHANGES, [stock_id, after_version])
        return [(row[0], row[1]) for row in cursor.fetchall()]


def send_releases_after_commit(stock_id: int) -> None:
    try:
        send_releases(stock_id)
    except RedisError as fault:
        log.warning("gate releases postponed", extra={"stock": stock_id, "reason": str(fault)})


def send_releases(stock_id: int) -> int:
    """Send committed releases to the gate, then delete their rows. Returns how many there were.

    The rows are read before the epoch. A release that commits later may belong to a later epoch; it stays in the table.
    """
    owed = list(GateSync.objects.filter(stock_id=stock_id).order_by("id")[:RELEASES_PER_CALL_MAX])
    if owed:
        stock = Stock.objects.get(id=stock_id)
        gate.release_grants(stock.sale_id, stock.sku, stock.gate_epoch, [row.request_id for row in owed])
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_SENT, [[row.id for row in owed]])
    return len(owed)
