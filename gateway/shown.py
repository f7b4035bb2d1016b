"""What buyers are shown, in Redis: the projection's cache, and the news for everybody who is watching.

It is written by the projection before its commit, from events that are facts already: so it is never behind the table,
and what it has is true even if that transaction is done again. A value only moves forward. What is not in it may still
be in the table: whoever misses it there puts it back. So it is with what another life of Redis has left: a Redis that
came back with the data of some seconds ago may have a state that its buyer has already seen the next one of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import UUID

from gateway import admission
from gateway.admission import LIFE, Remembered, remembered
from gateway.outcomes import Shown
from gateway.rounds import Entry, Rounds

NEWS = "outcomes"
"""The channel: each message is lines of `request id|version|outcome`."""

# ARGV: seconds to keep, channel (empty: no news), outcomes as JSON: [[id, version, value], ...]. What is kept is
# `version@life|value`.
_KEEP = (
    LIFE
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

# ARGV: request ids. The answer: the life, then for each what is kept of its outcome in this life, and its request.
_LOOK = (
    LIFE
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


class Known(NamedTuple):
    """What Redis knows of a request."""

    shown: Shown | None
    remembered: Remembered | None


def keep(rows: Sequence[Shown], *, tell: bool) -> None:
    """`RedisError` if it is away; then nothing has been projected either."""
    if rows:
        values = json.dumps([(str(row.request_id), row.version, encode(row)) for row in rows])
        admission.redis().eval(_KEEP, 0, str(admission.REMEMBER_S), NEWS if tell else "", values)


def look(request_id: UUID, patience_s: float = 2.5) -> Known:
    """`RedisError` or `TimeoutError`: it cannot be asked."""
    return _rounds().ask(request_id, patience_s)


def encode(row: Shown) -> str:
    order_id = None if row.order_id is None else str(row.order_id)
    return json.dumps([row.user_id, row.sale_id, row.state, order_id, row.pay_before_ms, row.may_buy_again])


def decode(request_id: UUID, value: str) -> Shown:
    """From what is kept (`version@life|outcome`), or from the news (`version|outcome`)."""
    user_id, sale_id, state, order_id, pay_before_ms, may_buy_again = json.loads(value.partition("|")[2])
    order = None if order_id is None else UUID(order_id)
    return Shown(request_id, user_id, sale_id, state, order, pay_before_ms, may_buy_again)


@lru_cache(maxsize=1)
def _rounds() -> Rounds[UUID, Known]:
    return Rounds("looks", _look)


def _look(entries: Sequence[Entry[UUID, Known]]) -> None:
    for entry, known in zip(entries, look_all([entry.ask for entry in entries]), strict=True):
        entry.settle(known)


def look_all(asked: Sequence[UUID]) -> list[Known]:
    """One question for all of them; `RedisError`: it cannot be asked."""
    life, *found = cast("list[str]", _look_script()(args=[str(request) for request in asked], client=admission.redis()))
    return [
        Known(decode(request, value) if value else None, remembered(known, life))
        for request, value, known in zip(asked, found[::2], found[1::2], strict=True)
    ]


@lru_cache(maxsize=1)
def _look_script() -> Any:
    return admission.redis().register_script(_LOOK)
