"""What the gateway is shown of each sale: one JSON value in Redis, newer ones only. It decides nothing."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError

from inventory import gate
from inventory.events import SALES_KEY, SaleView, view_key
from inventory.models import Stock

log = logging.getLogger(__name__)

# KEYS: view, set of sales. ARGV: view, its version, sale id. An older version than the one there changes nothing.
_SHOW = """
local there = redis.call('GET', KEYS[1])
if there and tonumber(cjson.decode(there)['stock_version']) > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], ARGV[3])
return 1
"""


def show(sale_id: int) -> None:
    """After a commit, and from time to time: what it misses, the next one brings."""
    stock = Stock.objects.select_related("sale").filter(sale_id=sale_id).order_by("id").first()
    if stock is None:
        return
    view = SaleView(
        stock.sale_id, stock.sale.name, stock.sku, stock.unit_price, stock.cap, stock.declared, stock.available,
        stock.reserved, stock.sold, stock.version, stock.sale.state, stock.sale.opens_at_ms, stock.sale.closes_at_ms,
    )  # fmt: skip
    try:
        gate.redis().eval(_SHOW, 2, view_key(sale_id), SALES_KEY, view.encode(), view.stock_version, sale_id)
    except RedisError as fault:
        log.warning("a sale is not shown", extra={"sale": sale_id, "reason": str(fault)})


def show_all() -> None:
    for sale_id in Stock.objects.values_list("sale_id", flat=True).distinct():
        show(sale_id)
