"""The gate brought back in line with the row: what a commit owes it, or all of it in a new epoch.

Called after commits, and again by whoever finds work left over: each step may be repeated.
"""

from __future__ import annotations

import logging

from django.db import transaction
from redis.exceptions import RedisError

from inventory import gate
from inventory.locks import lock_stocks
from inventory.models import ACTIVE, GateSync, Hold, Stock

log = logging.getLogger(__name__)

MOST_SYNCS = 1000


def after_commit(stock_id: int, seen_epoch: int) -> None:
    """Count anew, unless somebody has done it since. If this process dies first, the beat finds that it is owed."""
    try:
        rebuild(stock_id, seen_epoch)
    except RedisError as fault:
        log.warning("the gate stays closed", extra={"stock": stock_id, "reason": str(fault)})


def rebuild(stock_id: int, seen_epoch: int) -> bool:
    """A new epoch from the row and its active holds, under the row's lock; nobody decides meanwhile."""
    with transaction.atomic():
        stock = lock_stocks([stock_id])[stock_id]
        if stock.gate_epoch != seen_epoch and not stock.gate_owed:
            return False
        epoch = stock.gate_epoch + 1
        active = Hold.objects.filter(sale_id=stock.sale_id, stock_id=stock_id, state__in=ACTIVE)
        holds = list(active.values_list("request_id", "quantity"))
        gate.open_at(stock.sale_id, stock.sku, epoch, stock.available, holds)
        Stock.objects.filter(id=stock_id).update(gate_epoch=epoch, gate_owed=False)
        GateSync.objects.filter(stock_id=stock_id).delete()
    log.info("the gate was rebuilt", extra={"stock": stock_id, "epoch": epoch, "free": stock.available})
    return True


def sync_after_commit(stock_id: int) -> None:
    try:
        sync(stock_id)
    except RedisError as fault:
        log.warning("the gate is told later", extra={"stock": stock_id, "reason": str(fault)})


def sync(stock_id: int) -> int:
    """Tell the gate what commits have left for it; a row goes once it has been told. The rows are read before the epoch
    they are told to: what a later commit leaves is of a later epoch, perhaps, and is not ours to remove."""
    owed = list(GateSync.objects.filter(stock_id=stock_id).order_by("id")[:MOST_SYNCS])
    if owed:
        stock = Stock.objects.get(id=stock_id)
        gate.release(stock.sale_id, stock.sku, stock.gate_epoch, [row.request_id for row in owed])
        GateSync.objects.filter(id__in=[row.id for row in owed]).delete()
    return len(owed)
