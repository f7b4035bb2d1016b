"""What the gateway is shown of each sale: one JSON value in admission's Redis, newer ones only. It decides nothing.

The set of current sales is written as a whole once a second and always has a member, so a gateway that finds no set
knows that nothing is known yet. A sale that has ended leaves the set; its view stays for a day and then expires.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from uuid import uuid4

from django.conf import settings
from django.db.models import QuerySet
from redis import Redis
from redis.exceptions import RedisError

from inventory.events import NO_SALE, SALES_KEY, SALES_LIFE_KEY, SaleView, view_key
from inventory.models import Stock
from seckill import bounded_redis

log = logging.getLogger(__name__)

LISTED_MS = 3600_000
"""How long a sale stays current after its window has closed: payments and returns still change it."""
KEPT_MS = 24 * 3600_000
"""How long the view of a sale that has ended stays."""
VIEWS_PER_CALL = 500

_PUT = """
local function put(key, view, version, kept_ms)
  local there = redis.call('GET', key)
  if there and tonumber(cjson.decode(there)['stock_version']) > tonumber(version) then return end
  redis.call('SET', key, view, 'PX', kept_ms)
end
"""

# KEYS: view, set of sales. ARGV: view, its version, sale id, milliseconds to keep it, 1 if the sale is current. A set
# that is not there is not begun with one sale: it would look like all of them.
_SHOW = (
    _PUT
    + """
put(KEYS[1], ARGV[1], ARGV[2], ARGV[4])
if ARGV[5] ~= '1' then redis.call('SREM', KEYS[2], ARGV[3])
elseif redis.call('EXISTS', KEYS[2]) == 1 then redis.call('SADD', KEYS[2], ARGV[3]) end
"""
)

# KEYS: set of sales, life, pass. ARGV: the pass (one token for all its calls), its number of the call, all sale ids as
# JSON (only in the last call), then key, view, version, milliseconds to keep, … A pass that Redis has lost in between
# writes no set. The answer is the members of the set that are not among the ids.
_SHOW_ALL = (
    _PUT
    + """
if ARGV[2] == '0' then redis.call('SET', KEYS[3], ARGV[1], 'EX', 60)
elseif redis.call('GET', KEYS[3]) ~= ARGV[1] then return {} end
for i = 4, #ARGV, 4 do put(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
if ARGV[3] == '' then return {} end
local current, others = {}, {}
for _, id in ipairs(cjson.decode(ARGV[3])) do
  current[tostring(id)] = true
  redis.call('SADD', KEYS[1], id)
end
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if not current[member] then others[#others + 1] = member end
end
redis.call('SET', KEYS[2], string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'))
return others
"""
)
PASS_KEY = "sales:pass"


def redis() -> Redis:
    """Admission's: gateways read the views there."""
    return _client(settings.ENVIRONMENT.admission_redis_url)


@lru_cache(maxsize=2)
def _client(url: str) -> Redis:
    return bounded_redis.connect(url)


def show(sale_id: int) -> None:
    """After a commit: what it misses, the sweep brings."""
    stock = Stock.objects.select_related("sale").filter(sale_id=sale_id).order_by("id").first()
    try:
        if stock is None:
            redis().srem(SALES_KEY, sale_id)
            return
        view, now_ms = _view(stock), _now_ms()
        redis().eval(
            _SHOW, 2, view_key(sale_id), SALES_KEY, view.encode(), view.stock_version, sale_id, _kept_ms(view, now_ms),
            int(_is_current(view, now_ms)),
        )  # fmt: skip
    except RedisError as fault:
        log.warning("a sale is not shown", extra={"sale": sale_id, "reason": str(fault)})


def show_all() -> None:
    """Every current sale, with one statement and one call; then whatever the set has beyond them, as it is now."""
    now_ms = _now_ms()
    views = [_view(stock) for stock in _first_of_each_sale(_current(now_ms))]
    try:
        others = _write_all(views, now_ms)
    except RedisError as fault:
        log.warning("the sales are not shown", extra={"sales": len(views), "reason": str(fault)})
        return
    for sale_id in others:
        show(sale_id)


def _write_all(views: Sequence[SaleView], now_ms: int) -> list[int]:
    """The ids in the set of which no view was given."""
    token, others = str(uuid4()), []
    ids = json.dumps([NO_SALE, *(view.id for view in views)])
    starts = range(0, max(1, len(views)), VIEWS_PER_CALL)
    for number, start in enumerate(starts):
        arguments: list[str | int] = [token, number, ids if start == starts[-1] else ""]
        for view in views[start : start + VIEWS_PER_CALL]:
            arguments += [view_key(view.id), view.encode(), view.stock_version, _kept_ms(view, now_ms)]
        others = redis().eval(_SHOW_ALL, 3, SALES_KEY, SALES_LIFE_KEY, PASS_KEY, *arguments)
    return [int(member) for member in others]


def _current(now_ms: int) -> QuerySet[Stock]:
    stocks = Stock.objects.select_related("sale").exclude(sale__state="closed")
    return stocks.filter(sale__closes_at_ms__gt=now_ms - LISTED_MS).order_by("sale_id", "id")


def _is_current(view: SaleView, now_ms: int) -> bool:
    return view.state != "closed" and view.closes_at_ms > now_ms - LISTED_MS


def _kept_ms(view: SaleView, now_ms: int) -> int:
    ends_ms = now_ms if view.state == "closed" else max(now_ms, view.closes_at_ms)
    return ends_ms - now_ms + KEPT_MS


def _first_of_each_sale(stocks: QuerySet[Stock]) -> Iterator[Stock]:
    before = None
    for stock in stocks:
        if stock.sale_id != before:
            yield stock
        before = stock.sale_id


def _view(stock: Stock) -> SaleView:
    return SaleView(
        stock.sale_id, stock.sale.name, stock.sku, stock.unit_price, stock.cap, stock.declared, stock.available,
        stock.reserved, stock.sold, stock.version, stock.sale.state, stock.sale.opens_at_ms, stock.sale.closes_at_ms,
    )  # fmt: skip


def _now_ms() -> int:
    return int(time.time() * 1000)
