"""What inventory looks after once a second: what Redis is shown. What FLUSHALL took comes back by itself.

A Redis that was started again may have come back with the data of some seconds ago, and nothing in them says so: then
every gate is counted anew, once, by whoever sees it first.
"""

from __future__ import annotations

from inventory import gate, rebuild, views
from inventory.models import GateSync, Stock
from seckill.streams.sweeping import Sweep

BEAT_S = 1.0


def heal() -> bool:
    """Views shown, gates that are gone counted anew, and what commits have left for a gate told to it."""
    views.show_all()
    life = gate.life()
    is_old = not gate.is_of(life)
    for stock in Stock.objects.exclude(sale__state="closed"):
        if is_old or stock.gate_owed or not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch):
            rebuild.rebuild(stock.id, stock.gate_epoch)
    if is_old:
        gate.settle_in(life)
    for stock_id in GateSync.objects.values_list("stock_id", flat=True).distinct():
        rebuild.sync(stock_id)
    return False


def sweep() -> Sweep:
    return Sweep("inventory", BEAT_S, heal)
