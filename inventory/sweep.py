"""Inventory's sweep, once a second: publish the sale views and make the gates agree with their stock rows.

A restarted Redis may have loaded old data from disk, and nothing in the data shows it. So after each start of Redis all
gates are rebuilt once. The gate of an ended sale is deleted an hour later, or as soon as it turns out to be wrong,
because no request needs it any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from inventory import gate, gate_rebuild, sale_view, stray_grants
from inventory.models import GateSync, Sale, Stock
from inventory.states import SaleState
from seckill.messaging import database_clock
from seckill.messaging.pruning import PRUNE_INTERVAL_SECONDS, Pruner
from seckill.messaging.sweep_loop import Sweep, Sweeps

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
GATE_KEPT_AFTER_END_MS = 3600_000
"""Reports compare the gate with the holds, and late requests may still ask it."""


def run_once() -> bool:
    """True: more releases are waiting for a gate than one run sends, so run again at once."""
    sale_view.publish_all_views()
    run_id = gate.redis_run_id()
    was_restarted = not gate.was_synced_in_run(run_id)
    now_ms = database_clock.now_ms()
    stocks = list(Stock.objects.select_related("sale").filter(gate_retired=False).order_by("id"))
    opened = gate.are_open([(stock.sale_id, stock.sku, stock.gate_epoch) for stock in stocks])
    correct, wrong, retiring = [], [], []
    for stock, is_open in zip(stocks, opened, strict=True):
        is_wrong = was_restarted or stock.gate_owed or not is_open
        if has_ended(stock.sale, now_ms):
            if is_wrong or now_ms > _ended_ms(stock.sale) + GATE_KEPT_AFTER_END_MS:
                retiring.append(stock)
        elif is_wrong:
            wrong.append(stock)
        else:
            correct.append(stock)
    _retire_gates(retiring)
    if _rebuild_gates(wrong) and was_restarted:
        gate.mark_synced_in_run(run_id)
    stray_grants.release_stray_grants(correct)
    waiting = GateSync.objects.values_list("stock_id", flat=True).distinct()
    sent = [gate_rebuild.send_releases(stock_id) for stock_id in waiting]
    return max(sent, default=0) == gate_rebuild.RELEASES_PER_CALL_MAX


def has_ended(sale: Sale, now_ms: int) -> bool:
    """Whether every further request will be rejected."""
    return sale.state == SaleState.CLOSED or now_ms > sale.closes_at_ms + GATE_KEPT_AFTER_END_MS


def _ended_ms(sale: Sale) -> int:
    return sale.closes_at_ms if sale.closed_at_ms is None else min(sale.closed_at_ms, sale.closes_at_ms)


def _rebuild_gates(stocks: Sequence[Stock]) -> bool:
    """Rebuild the gates, small ones first. False if one failed; it is tried again in the next run."""
    all_rebuilt, views = True, _ViewPublisher()
    for stock in sorted(stocks, key=lambda stock: stock.reserved + stock.sold):
        try:
            gate_rebuild.rebuild_gate(stock.id, stock.gate_epoch, views.publish_if_due, is_patient=True)
        except RedisError as fault:
            all_rebuilt = False
            log.warning("gate not rebuilt", extra={"stock": stock.id, "reason": str(fault)})
    return all_rebuilt


class _ViewPublisher:
    """Publishes the views once per interval while a long rebuild runs."""

    def __init__(self) -> None:
        self._published_at = time.monotonic()

    def publish_if_due(self) -> None:
        if time.monotonic() - self._published_at > INTERVAL_S:
            sale_view.publish_all_views()
            self._published_at = time.monotonic()


def _retire_gates(stocks: Sequence[Stock]) -> None:
    if stocks:
        gate.delete_gates([(stock.sale_id, stock.sku, stock.gate_epoch) for stock in stocks])
        Stock.objects.filter(id__in=[stock.id for stock in stocks]).update(gate_retired=True, gate_owed=False)
        log.info("gates retired", extra={"stocks": len(stocks)})


def create_sweeps() -> Sweeps:
    return Sweeps(
        Sweep("inventory", INTERVAL_S, run_once),
        Sweep("inventory retention", PRUNE_INTERVAL_SECONDS, Pruner("inventory").run_once),
    )
