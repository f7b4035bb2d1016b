"""The gate in Redis: proposes who may get a unit, so that losers cost Postgres nothing. It never decides.

Keys of a sale share a hash tag. For each stock and epoch: `free` (a counter) and `granted` (request → units). Grants
are remembered, refusals never; run twice for one request it takes once. Keys that are not there mean "closed": the
gate then proposes nobody and refuses nobody, and the row is asked. What FLUSHALL takes, `rebuild` brings back.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from redis import Redis


class Proposal(IntEnum):
    REFUSED = 0
    GRANTED = 1
    CLOSED = 2


# KEYS: free, granted. ARGV: "request units request units …". An answer is a digit for each: one word goes each way, for
# a thousand would be taken apart one by one, by us and by Redis.
_PROPOSE = """
local before = tonumber(redis.call('GET', KEYS[1]))
local free = before
local answers = {}
for request, units in string.gmatch(ARGV[1], '(%S+) (%S+)') do
  local answer = 0
  if not free then
    answer = 2
  elseif free >= tonumber(units) then
    free = free - redis.call('HSETNX', KEYS[2], request, units) * units
    answer = 1
  elseif redis.call('HEXISTS', KEYS[2], request) == 1 then
    answer = 1
  end
  answers[#answers + 1] = answer
end
if free ~= before then redis.call('DECRBY', KEYS[1], before - free) end
return table.concat(answers)
"""

# KEYS: free, granted. ARGV: requests. Gives back what it holds for each, once.
_RELEASE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local back = 0
for i = 1, #ARGV do
  local units = redis.call('HGET', KEYS[2], ARGV[i])
  if units then
    redis.call('HDEL', KEYS[2], ARGV[i])
    redis.call('INCRBY', KEYS[1], units)
    back = back + 1
  end
end
return back
"""

# KEYS: free, granted, the same of the epoch before. ARGV: milliseconds that one is left, free units, then request,
# units, … of all active holds.
_OPEN = """
redis.call('DEL', KEYS[1], KEYS[2])
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[3], ARGV[1])
redis.call('PEXPIRE', KEYS[4], ARGV[1])
return 1
"""
OLD_EPOCH_MS = 60_000
"""Batches under way may still ask the epoch before, and are told what it knew; nobody is under way so long."""


@lru_cache(maxsize=1)
def redis() -> Redis:
    client: Redis = Redis.from_url(
        settings.ENVIRONMENT.gate_redis_url, socket_timeout=2, socket_connect_timeout=2, decode_responses=True
    )
    return client


@lru_cache(maxsize=8)
def _script(source: str) -> Any:
    return redis().register_script(source)


def keys(sale_id: int, sku: str, epoch: int) -> list[str]:
    base = f"sale:{{{sale_id}}}:gate:{sku}:{epoch}"
    return [f"{base}:free", f"{base}:granted"]


def propose(sale_id: int, sku: str, epoch: int, requests: Sequence[tuple[UUID, int]]) -> list[Proposal]:
    asked = " ".join([f"{request} {units}" for request, units in requests])
    answers = _script(_PROPOSE)(keys(sale_id, sku, epoch), [asked])
    return [Proposal(int(answer)) for answer in answers]


def release(sale_id: int, sku: str, epoch: int, requests: Sequence[UUID]) -> None:
    if requests:
        _script(_RELEASE)(keys(sale_id, sku, epoch), [str(request) for request in requests])


def open_at(sale_id: int, sku: str, epoch: int, free: int, granted: Sequence[tuple[UUID, int]]) -> None:
    """Begin an epoch with what the row and its holds say; the caller has the row locked."""
    arguments = [str(OLD_EPOCH_MS), str(free), *(str(part) for hold in granted for part in hold)]
    _script(_OPEN)([*keys(sale_id, sku, epoch), *keys(sale_id, sku, epoch - 1)], arguments)


RUN_KEY = "gate:run"
"""The life of Redis in which all gates were last in line with their rows."""


def life() -> str:
    """Another one after each restart, whatever it has brought back from its disk."""
    return str(redis().info("server")["run_id"])


def is_of(run: str) -> bool:
    """Is what stands here of this life?"""
    return bool(redis().get(RUN_KEY) == run)


def settle_in(run: str) -> None:
    redis().set(RUN_KEY, run)


def is_open(sale_id: int, sku: str, epoch: int) -> bool:
    """Does this epoch still stand? Not after FLUSHALL."""
    return bool(redis().exists(keys(sale_id, sku, epoch)[0]))
