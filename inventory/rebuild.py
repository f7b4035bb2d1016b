"""The gate brought back in line with the row: what a commit owes it, or all of it in a new epoch.

Called after commits, and again by whoever finds work left over: each step may be repeated.

A new epoch is counted without the row's lock, a slice of holds at a time; then, with the ledger, whatever has changed
since; and only the last few changes under the lock. So neither the row nor Redis is held up by a sale with millions of
holds.
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

log = logging.getLogger(__name__)

SYNCS_MAX = 1000
SLICE = 1000
SMALL = 20_000
"""So many units held at most, and the process that finds the gate wrong counts it; a larger one is the sweep's."""
CLOSE = 500
"""So few changes are left when the row is locked, unless they come faster than they can be counted."""
ROUNDS_MAX = 20

_SLICE = """
SELECT user_id, request_id, quantity FROM inventory_hold
WHERE sale_id = %s AND stock_id = %s AND state IN ('reserved', 'sold') AND user_id > %s
ORDER BY user_id LIMIT %s
"""
_CHANGED = """
SELECT changed.request_id,
       coalesce((SELECT quantity FROM inventory_hold
                 WHERE request_id = changed.request_id AND state IN ('reserved', 'sold')), 0)
FROM (SELECT DISTINCT request_id FROM inventory_ledger
      WHERE stock_id = %s AND version > %s AND request_id IS NOT NULL) AS changed
"""
# Skips what another one is removing: two of them never wait for each other.
_TOLD = """
DELETE FROM inventory_gate_sync WHERE id IN (
    SELECT id FROM inventory_gate_sync WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED
)
"""


def after_commit(stock_id: int, seen_epoch: int) -> None:
    """Count anew, unless that has been done since. If this process dies first, the sweep finds that it is owed."""
    try:
        stock = _find(stock_id)
        if stock.reserved + stock.sold <= SMALL:
            rebuild(stock_id, seen_epoch)
    except RedisError as fault:
        log.warning("the gate stays closed", extra={"stock": stock_id, "reason": str(fault)})


def rebuild(
    stock_id: int, seen_epoch: int, between: Callable[[], object] = lambda: None, *, is_patient: bool = False
) -> bool:
    """A new epoch from the row and its active holds; `between` is called after each slice of them. `is_patient`: as
    `gate.Counting`."""
    stock = _find(stock_id)
    if not _is_due(stock, seen_epoch):
        return False
    counting, counted_to = gate.Counting(stock.sale_id, stock.sku, is_patient=is_patient), stock.version
    counting.add([])
    for holds in _slices(stock):
        counting.add(holds)
        between()
    for _ in range(ROUNDS_MAX):
        version = _find(stock_id).version
        if version - counted_to <= CLOSE:
            break
        counting.add(_changed(stock_id, counted_to))
        counted_to = version
    with transaction.atomic():
        stock = lock_stocks([stock_id])[stock_id]
        if not _is_due(stock, seen_epoch):
            return False
        if stock.version > counted_to:
            counting.add(_changed(stock_id, counted_to), is_locked=True)
        epoch = stock.gate_epoch + 1
        counting.open(epoch, stock.available)
        Stock.objects.filter(id=stock_id).update(gate_epoch=epoch, gate_owed=False, gate_retired=False)
    log.info("the gate was rebuilt", extra={"stock": stock_id, "epoch": epoch, "free": stock.available})
    return True


def _find(stock_id: int) -> Stock:
    stock = Stock.objects.select_related("sale").filter(id=stock_id).first()
    assert stock is not None, f"stock {stock_id} exists"
    return stock


def _is_due(stock: Stock, seen_epoch: int) -> bool:
    """A closed sale needs no gate: whatever comes is refused."""
    return stock.sale.state != "closed" and (stock.gate_epoch == seen_epoch or stock.gate_owed)


def _slices(stock: Stock) -> Iterator[list[tuple[UUID, int]]]:
    """Active holds by user, each slice as it is when it is read: later changes are in the ledger."""
    last = ""
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_SLICE, [stock.sale_id, stock.id, last, SLICE])
            rows = cursor.fetchall()
        if rows:
            yield [(request_id, quantity) for _, request_id, quantity in rows]
        if len(rows) < SLICE:
            return
        last = rows[-1][0]


def _changed(stock_id: int, after_version: int) -> list[tuple[UUID, int]]:
    """Requests whose units have moved since that version, with what they hold now (0: nothing)."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, [stock_id, after_version])
        return [(row[0], row[1]) for row in cursor.fetchall()]


def sync_after_commit(stock_id: int) -> None:
    try:
        sync(stock_id)
    except RedisError as fault:
        log.warning("the gate is told later", extra={"stock": stock_id, "reason": str(fault)})


def sync(stock_id: int) -> int:
    """Tell the gate what commits have left for it; a row goes once it has been told. The rows are read before the epoch
    they are told to: what a later commit leaves is of a later epoch, perhaps, and is not ours to remove."""
    owed = list(GateSync.objects.filter(stock_id=stock_id).order_by("id")[:SYNCS_MAX])
    if owed:
        stock = Stock.objects.get(id=stock_id)
        gate.release(stock.sale_id, stock.sku, stock.gate_epoch, [row.request_id for row in owed])
        with connection.cursor() as cursor:
            cursor.execute(_TOLD, [[row.id for row in owed]])
    return len(owed)
