"""All row locks of inventory, in one order: stock rows by id. Nothing else is locked here."""

from __future__ import annotations

from collections.abc import Iterable

from inventory.models import Stock
from seckill.streams import offsets


def lock_stocks(ids: Iterable[int]) -> dict[int, Stock]:
    """The rows, locked until the transaction ends."""
    rows = Stock.objects.select_related("sale").filter(id__in=set(ids)).order_by("id").select_for_update(of=("self",))
    with offsets.waiting():
        return {stock.id: stock for stock in rows}
