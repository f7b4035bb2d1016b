"""The process that looks after what Redis is shown, once a second: what FLUSHALL took comes back by itself."""

from __future__ import annotations

import logging
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections
from redis.exceptions import RedisError

from inventory import gate, rebuild, views
from inventory.models import GateSync, Stock
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

BEAT_S = 1.0


class Sweep:
    def __init__(self) -> None:
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        announce()
        while not self._stopping.wait(BEAT_S):
            try:
                heal()
            except (DatabaseError, RedisError) as fault:
                log.warning("beat pauses", extra={"reason": str(fault)})
                close_old_connections()


def heal() -> None:
    """Views shown, gates that are gone counted anew, and what commits have left for a gate told to it."""
    views.show_all()
    for stock in Stock.objects.exclude(sale__state="closed"):
        if stock.gate_owed or not gate.is_open(stock.sale_id, stock.sku, stock.gate_epoch):
            rebuild.rebuild(stock.id, stock.gate_epoch)
    for stock_id in GateSync.objects.values_list("stock_id", flat=True).distinct():
        rebuild.sync(stock_id)
