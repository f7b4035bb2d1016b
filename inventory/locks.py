"""Row locks of inventory. Only stock rows are locked, in the order of their ids, so two batches cannot deadlock."""

from __future__ import annotations

from collections.abc import Iterable

from inventory.models import Stock
from seckill.messaging import offsets


def lock_stocks(ids: Iterable[int]) -> dict[int, Stock]:
    """The rows by id, locked until the transaction ends."""
    rows = Stock.objects.select_related("sale").filter(id__in=set(ids)).order_by("id").select_for_update(of=("self",))
    with offsets.waiting_for_lock():
        return {stock.id: stock for stock in rows}
