"""The outcomes of purchases in Redis: a cache of the projection, and notifications for open event streams.

The projection writes here before it commits. It writes facts taken from events, so a value is true even if the
transaction is repeated, and the cache is never behind the table. A value only moves forward. A missing value may still
be in the table; a reader that finds it there puts it back. The same holds for values from before a restart of Redis:
they may be some seconds old, and their buyer may already have seen a later state, so they are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast
from uuid import UUID

from gateway import admission
from gateway.admission import AdmittedRequest, parse_admitted_request
from gateway.admission_script import LIFE_LUA
from gateway.batching import MicroBatcher
from gateway.outcomes import PurchaseOutcome
from seckill.resilience.admission_keys import prefix
from seckill.web.purchase_states import PurchaseState

CHANNEL = "outcomes"
"""Each message contains lines of `request id|version|outcome`."""

# KEYS: prefix. ARGV: seconds to keep, channel (empty: no message), outcomes as JSON: [[id, version, value], ...]. The
# stored value is `version@run|value`, where `run` identifies the running Redis process.
_STORE = (
    LIFE_LUA
    + """
local news = {}
for _, each in ipairs(cjson.decode(ARGV[3])) do
  local key = prefix .. 'outcome:' .. each[1]
  local version, life_there = string.match(redis.call('GET', key) or '', '^(%d+)@(%x+)|')
  if life_there ~= life or tonumber(version) < each[2] then
    redis.call('SET', key, string.format('%d@%s|%s', each[2], life, each[3]), 'EX', ARGV[1])
    news[#news + 1] = string.format('%s|%d|%s', each[1], each[2], each[3])
  end
end
if #news > 0 and ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], table.concat(news, '\\n')) end
return #news
"""
)

# KEYS: prefix. ARGV: request ids. Returns the run id, the time from which Redis remembers, and two values for each
# request: its outcome, and what admission remembers.
_FETCH = (
    LIFE_LUA
    + """
local found = {life, string.format('%.0f', since)}
for _, id in ipairs(ARGV) do
  local outcome = redis.call('GET', prefix .. 'outcome:' .. id) or ''
  if string.match(outcome, '^%d+@(%x+)|') ~= life then outcome = '' end
  found[#found + 1] = outcome
  found[#found + 1] = redis.call('GET', prefix .. 'admission:request:' .. id) or ''
end
return found
"""
)


class CachedPurchase(NamedTuple):
    """What Redis knows about a request. `since_ms`: it may have forgotten what is older; None: it could not be read."""

    outcome: PurchaseOutcome | None
    admitted: AdmittedRequest | None
    since_ms: int | None = None


def store_outcomes(rows: Sequence[PurchaseOutcome], *, notify: bool) -> None:
    """Raises `RedisError` if Redis is unavailable; the projection's transaction is then rolled back."""
    if rows:
        values = json.dumps([(str(row.request_id), row.version, encode_outcome(row)) for row in rows])
        admission.redis_connection().eval(
            _STORE, 1, prefix(), str(admission.MEMORY_S), CHANNEL if notify else "", values
        )


async def fetch_purchase(request_id: UUID) -> CachedPurchase:
    """On the gateway's event loop; concurrent calls share one call to Redis. Raises `RedisError`."""
    return await _batches().run(request_id)


def fetch_purchases(request_ids: Sequence[UUID]) -> list[CachedPurchase]:
    """On a thread; one call to Redis for all of them. Raises `RedisError`."""
    keys = [str(request_id) for request_id in request_ids]
    found = admission.redis_connection().eval(_FETCH, 1, prefix(), *keys)
    return _parse_found(request_ids, cast("list[str]", found))


async def _fetch_batch(request_ids: Sequence[UUID]) -> list[CachedPurchase]:
    return _parse_found(request_ids, await admission.run_script(_FETCH, *map(str, request_ids)))


def _parse_found(request_ids: Sequence[UUID], found: Sequence[str]) -> list[CachedPurchase]:
    life, since_ms, *values = found
    return [
        CachedPurchase(
            decode_outcome(request_id, value) if value else None,
            parse_admitted_request(admitted, life),
            int(since_ms),
        )
        for request_id, value, admitted in zip(request_ids, values[::2], values[1::2], strict=True)
    ]


@lru_cache(maxsize=1)
def _batches() -> MicroBatcher[UUID, CachedPurchase]:
    return MicroBatcher(_fetch_batch)


def encode_outcome(row: PurchaseOutcome) -> str:
    order_id = None if row.order_id is None else str(row.order_id)
    return json.dumps([row.user_id, row.sale_id, row.state.value, order_id, row.pay_before_ms, row.may_buy_again])


def decode_outcome(request_id: UUID, value: str) -> PurchaseOutcome:
    """From a stored value (`version@run|outcome`) or a message (`version|outcome`)."""
    user_id, sale_id, state, order_id, pay_before_ms, may_buy_again = json.loads(value.partition("|")[2])
    order = None if order_id is None else UUID(order_id)
    return PurchaseOutcome(request_id, user_id, sale_id, PurchaseState(state), order, pay_before_ms, may_buy_again)
