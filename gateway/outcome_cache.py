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
from typing import Any, NamedTuple, cast
from uuid import UUID

from gateway import admission
from gateway.admission import AdmittedRequest, parse_admitted_request
from gateway.admission_script import LIFE_LUA
from gateway.outcomes import PurchaseOutcome
from gateway.rounds import Entry, Rounds
from seckill.web.purchase_states import PurchaseState

CHANNEL = "outcomes"
"""Each message contains lines of `request id|version|outcome`."""
FETCH_TIMEOUT_S = 2.5

# ARGV: seconds to keep, channel (empty: no message), outcomes as JSON: [[id, version, value], ...]. The stored value is
# `version@run|value`, where `run` identifies the running Redis process.
_STORE = (
    LIFE_LUA
    + """
local news = {}
for _, each in ipairs(cjson.decode(ARGV[3])) do
  local key = 'outcome:' .. each[1]
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

# ARGV: request ids. Returns the run id, then two values for each request: its outcome, and what admission remembers.
_FETCH = (
    LIFE_LUA
    + """
local found = {life}
for _, id in ipairs(ARGV) do
  local outcome = redis.call('GET', 'outcome:' .. id) or ''
  if string.match(outcome, '^%d+@(%x+)|') ~= life then outcome = '' end
  found[#found + 1] = outcome
  found[#found + 1] = redis.call('GET', 'admission:request:' .. id) or ''
end
return found
"""
)


class CachedPurchase(NamedTuple):
    """What Redis knows about a request."""

    outcome: PurchaseOutcome | None
    admitted: AdmittedRequest | None


def store_outcomes(rows: Sequence[PurchaseOutcome], *, notify: bool) -> None:
    """Raises `RedisError` if Redis is unavailable; the projection's transaction is then rolled back."""
    if rows:
        values = json.dumps([(str(row.request_id), row.version, encode_outcome(row)) for row in rows])
        admission.redis_connection().eval(_STORE, 0, str(admission.MEMORY_S), CHANNEL if notify else "", values)


def fetch_purchase(request_id: UUID, timeout_s: float = FETCH_TIMEOUT_S) -> CachedPurchase:
    """Batched with the calls of other threads. Raises `RedisError` or `TimeoutError`."""
    return _batches().ask(request_id, timeout_s)


def fetch_purchases(request_ids: Sequence[UUID]) -> list[CachedPurchase]:
    """One call to Redis for all of them. Raises `RedisError`."""
    keys = [str(request_id) for request_id in request_ids]
    life, *found = cast("list[str]", _fetch_script()(args=keys, client=admission.redis_connection()))
    return [
        CachedPurchase(decode_outcome(request_id, value) if value else None, parse_admitted_request(admitted, life))
        for request_id, value, admitted in zip(request_ids, found[::2], found[1::2], strict=True)
    ]


def encode_outcome(row: PurchaseOutcome) -> str:
    order_id = None if row.order_id is None else str(row.order_id)
    return json.dumps([row.user_id, row.sale_id, row.state.value, order_id, row.pay_before_ms, row.may_buy_again])


def decode_outcome(request_id: UUID, value: str) -> PurchaseOutcome:
    """From a stored value (`version@run|outcome`) or a message (`version|outcome`)."""
    user_id, sale_id, state, order_id, pay_before_ms, may_buy_again = json.loads(value.partition("|")[2])
    order = None if order_id is None else UUID(order_id)
    return PurchaseOutcome(request_id, user_id, sale_id, PurchaseState(state), order, pay_before_ms, may_buy_again)


@lru_cache(maxsize=1)
def _batches() -> Rounds[UUID, CachedPurchase]:
    return Rounds("outcome cache", _fetch_batch)


def _fetch_batch(entries: Sequence[Entry[UUID, CachedPurchase]]) -> None:
    for entry, cached in zip(entries, fetch_purchases([entry.ask for entry in entries]), strict=True):
        entry.settle(cached)


@lru_cache(maxsize=1)
def _fetch_script() -> Any:
    return admission.redis_connection().register_script(_FETCH)
