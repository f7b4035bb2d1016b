"""What inventory looks after once a second: what Redis is shown, and that its gates say what the rows say.

Only current sales are looked after. A Redis that was started again may have come back with the data of some seconds
ago, and nothing in them says so: then every gate is counted again, once. The gate of a sale that has ended is retired
an hour later, or as soon as it is gone: nobody asks it any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from inventory import gate, rebuild, strays, views
from inventory.models import GateSync, Sale, Stock
from seckill.streams.pruning import LOOK_S, Pruner
from seckill.streams.sweeping import Sweep, Sweeps

log = logging.getLogger(__name__)

BEAT_S = 1.0
GATE_KEPT_MS = 3600_000
"""After the end of a sale: reports compare its gate with its holders, and late requests may still ask it."""


def heal() -> bool:
    """True: there is so much to tell the gates that it is worth looking again at once."""
    views.show_all()
    life = gate.life()
    is_old = not gate.is_of(life)
    now_ms = int(time.time() * 1000)
    stocks = list(Stock.objects.select_related("sale").filter(gate_retired=False).order_by("id"))
    opened = gate.are_open([(stock.sale_id, stock.sku, stock.gate_epoch) for stock in stocks])
    current, wrong, over = [], [], []
    for stock, is_open in zip(stocks, opened, strict=True):
        is_wrong = is_old or stock.gate_owed or not is_open
        if is_over(stock.sale, now_ms):
            if is_wrong or now_ms > _ended_ms(stock.sale) + GATE_KEPT_MS:
                over.append(stock)
        elif is_wrong:
            wrong.append(stock)
        else:
            current.append(stock)
    _retire(over)
    if _count_again(wrong) and is_old:
        gate.settle_in(life)
    strays.look(current)
    told = [rebuild.sync(stock_id) for stock_id in GateSync.objects.values_list("stock_id", flat=True).distinct()]
    return max(told, default=0) == rebuild.SYNCS_MAX


def is_over(sale: Sale, now_ms: int) -> bool:
    """Whatever comes is refused."""
    return sale.state == "closed" or now_ms > sale.closes_at_ms + GATE_KEPT_MS


def _ended_ms(sale: Sale) -> int:
    return sale.closes_at_ms if sale.closed_at_ms is None else min(sale.closed_at_ms, sale.closes_at_ms)


def _count_again(stocks: Sequence[Stock]) -> bool:
    """All of them? The small ones first; one that fails is left for the next look, and the others go on. Sales are
    shown all the while."""
    done, clock = True, _Clock()
    for stock in sorted(stocks, key=lambda stock: stock.reserved + stock.sold):
        try:
            rebuild.rebuild(stock.id, stock.gate_epoch, clock.show, is_patient=True)
        except RedisError as fault:
            done = False
            log.warning("the gate stays closed", extra={"stock": stock.id, "reason": str(fault)})
    return done


class _Clock:
    def __init__(self) -> None:
        self._at = time.monotonic()

    def show(self) -> None:
        if time.monotonic() - self._at > BEAT_S:
            views.show_all()
            self._at = time.monotonic()


def _retire(stocks: Sequence[Stock]) -> None:
    if stocks:
        gate.retire([(stock.sale_id, stock.sku, stock.gate_epoch) for stock in stocks])
        Stock.objects.filter(id__in=[stock.id for stock in stocks]).update(gate_retired=True, gate_owed=False)
        log.info("gates retired", extra={"stocks": len(stocks)})


def sweep() -> Sweeps:
    return Sweeps(Sweep("inventory", BEAT_S, heal), Sweep("inventory retention", LOOK_S, Pruner("inventory").look))
