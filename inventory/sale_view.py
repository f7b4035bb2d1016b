"""Publish a view of each sale, one JSON value in admission's Redis, for the gateways. Nothing is decided from it.

An older view never replaces a newer one. Once a second the whole set of current sales is written. The set is never
empty, so a gateway that finds no set knows that Redis has lost it. An ended sale leaves the set; its view expires a day
later. Times are compared with the database's clock, because the windows of sales are set by it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from uuid import uuid4

from django.conf import settings
from django.db.models import QuerySet
from redis import Redis
from redis.exceptions import RedisError

from inventory.events import NO_SALE, SALES_KEY, SALES_RUN_KEY, ArticleView, SaleView, view_key
from inventory.models import Stock
from inventory.states import SaleState
from seckill.messaging import database_clock
from seckill.resilience import redis_client
from seckill.resilience.admission_keys import admission_key

log = logging.getLogger(__name__)

LISTED_AFTER_CLOSE_MS = 3600_000
"""A sale stays current for this long after its window has closed, because payments and returns still change it."""
ENDED_VIEW_KEPT_MS = 24 * 3600_000
"""The view of an ended sale expires after this time."""
VIEWS_PER_CALL_MAX = 500

_PUT_IF_NEWER = """
local function put(key, view, version, kept_ms)
  local stored = redis.call('GET', key)
  if stored then
    local there = cjson.decode(stored)
    if tonumber(there['version'] or there['stock_version']) > tonumber(version) then return end
  end
  redis.call('SET', key, view, 'PX', kept_ms)
end
"""

# KEYS: view, set of sales. ARGV: view, its version, sale id, its time to live in milliseconds, 1 if the sale is
# current. A missing set is not created here, because a set with one sale would look like the complete list.
_PUBLISH_VIEW = (
    _PUT_IF_NEWER
    + """
put(KEYS[1], ARGV[1], ARGV[2], ARGV[4])
if ARGV[5] ~= '1' then redis.call('SREM', KEYS[2], ARGV[3])
elseif redis.call('EXISTS', KEYS[2]) == 1 then redis.call('SADD', KEYS[2], ARGV[3]) end
"""
)

# KEYS: set of sales, run id, pass. ARGV: token of this pass, number of the call, all sale ids as JSON (last call only),
# then key, view, version, time to live, … If Redis lost the token since the first call, no set is written. Returns the
# members of the set that are not among the ids.
_PUBLISH_ALL = (
    _PUT_IF_NEWER
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
    """Admission's Redis, where gateways read the views."""
    return _client(settings.ENVIRONMENT.admission_redis_url)


@lru_cache(maxsize=2)
def _client(url: str) -> Redis:
    return redis_client.connect(url)


def publish_view(sale_id: int) -> None:
    """Call it after a commit. If Redis is unavailable, the sweep publishes the view later."""
    now_ms = database_clock.now_ms()
    stocks = list(Stock.objects.select_related("sale").filter(sale_id=sale_id).order_by("id"))
    try:
        if not stocks:
            redis().srem(admission_key(SALES_KEY), sale_id)
            return
        view = _build_view(stocks)
        redis().eval(
            _PUBLISH_VIEW, 2, admission_key(view_key(sale_id)), admission_key(SALES_KEY), view.encode(),
            view.version, sale_id, _kept_ms(view, now_ms), int(_is_current(view, now_ms)),
        )  # fmt: skip
    except RedisError as fault:
        log.warning("sale view not published", extra={"sale": sale_id, "reason": str(fault)})


def publish_all_views() -> None:
    """Publish every current sale, then each sale that is in the set but no longer current."""
    now_ms = database_clock.now_ms()
    by_sale = groupby(_select_current(now_ms), key=attrgetter("sale_id"))
    views = [_build_view(list(stocks)) for _, stocks in by_sale]
    try:
        others = _publish_views(views, now_ms)
    except RedisError as fault:
        log.warning("sale views not published", extra={"sales": len(views), "reason": str(fault)})
        return
    for sale_id in others:
        publish_view(sale_id)


def _publish_views(views: Sequence[SaleView], now_ms: int) -> list[int]:
    """Returns the ids that are in the set but not among the views."""
    token, others = str(uuid4()), []
    ids = json.dumps([NO_SALE, *(view.id for view in views)])
    starts = range(0, max(1, len(views)), VIEWS_PER_CALL_MAX)
    for number, start in enumerate(starts):
        arguments: list[str | int] = [token, number, ids if start == starts[-1] else ""]
        for view in views[start : start + VIEWS_PER_CALL_MAX]:
            arguments += [admission_key(view_key(view.id)), view.encode(), view.version, _kept_ms(view, now_ms)]
        keys = map(admission_key, (SALES_KEY, SALES_RUN_KEY, PASS_KEY))
        others = redis().eval(_PUBLISH_ALL, 3, *keys, *arguments)
    return [int(member) for member in others]


def _select_current(now_ms: int) -> QuerySet[Stock]:
    stocks = Stock.objects.select_related("sale").exclude(sale__state=SaleState.CLOSED)
    return stocks.filter(sale__closes_at_ms__gt=now_ms - LISTED_AFTER_CLOSE_MS).order_by("sale_id", "id")


def _is_current(view: SaleView, now_ms: int) -> bool:
    return view.state != SaleState.CLOSED and view.closes_at_ms > now_ms - LISTED_AFTER_CLOSE_MS


def _kept_ms(view: SaleView, now_ms: int) -> int:
    ends_ms = now_ms if view.state == SaleState.CLOSED else max(now_ms, view.closes_at_ms)
    return ends_ms - now_ms + ENDED_VIEW_KEPT_MS


def _build_view(stocks: Sequence[Stock]) -> SaleView:
    """Of all articles of one sale, in the order of their ids."""
    first, *others = map(_build_article, stocks)
    sale = stocks[0].sale
    return SaleView(
        id=sale.id, name=sale.name, state=sale.state, opens_at_ms=sale.opens_at_ms, closes_at_ms=sale.closes_at_ms,
        more_articles=tuple(others), **asdict(first),
    )  # fmt: skip


def _build_article(stock: Stock) -> ArticleView:
    return ArticleView(
        stock.sku, stock.unit_price, stock.cap, stock.declared, stock.available, stock.reserved, stock.sold,
        stock.version,
    )  # fmt: skip
