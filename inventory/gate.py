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
from uuid import UUID, uuid4

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from seckill import bounded_redis


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

# An epoch is counted into a hash of its own, which nobody asks; it becomes `granted` when the epoch opens. Its field ''
# is the sign that nothing of it was lost on the way.
# KEYS: the hash. ARGV: 1 to begin it, milliseconds it is kept, then request, units, … The answer is 0 if it was lost.
_FILL = """
if ARGV[1] == '1' then
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], '', 0)
elseif redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '0' then redis.call('HDEL', KEYS[1], ARGV[i])
  else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

# KEYS: free, granted, the same of the epoch before, the hash. ARGV: milliseconds the old ones are left, free units.
_OPEN = """
if redis.call('HEXISTS', KEYS[5], '') == 0 then return 0 end
redis.call('HDEL', KEYS[5], '')
redis.call('UNLINK', KEYS[1], KEYS[2])
if redis.call('EXISTS', KEYS[5]) == 1 then
  redis.call('RENAME', KEYS[5], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[3], ARGV[1])
redis.call('PEXPIRE', KEYS[4], ARGV[1])
return 1
"""
COUNTING_MS = 60_000
PATIENCE_S = 5.0
OLD_EPOCH_MS = 60_000
"""Batches under way may still ask the epoch before, and are told what it knew; nobody is under way so long."""


@lru_cache(maxsize=1)
def redis() -> Redis:
    return bounded_redis.connect(settings.ENVIRONMENT.gate_redis_url)


@lru_cache(maxsize=1)
def _patient_redis() -> Redis:
    return bounded_redis.connect(settings.ENVIRONMENT.gate_redis_url, PATIENCE_S)


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


class Lost(RedisError):
    """What had been counted is gone from Redis; count again."""


class Counting:
    """The next epoch of a gate while it is counted, a slice at a time. Two at once do not disturb each other."""

    def __init__(self, sale_id: int, sku: str, *, is_patient: bool = False) -> None:
        """`is_patient`: a slow Redis is waited for, except while the row is locked."""
        self._sale_id, self._sku = sale_id, sku
        self._is_patient = is_patient
        self._key = f"sale:{{{sale_id}}}:gate:{sku}:counting:{uuid4()}"
        self._is_begun = False

    def add(self, holds: Sequence[tuple[UUID, int]], *, is_locked: bool = False) -> None:
        """Units by request; none: it holds nothing any more. `Lost` if Redis has forgotten what was added before."""
        client = _patient_redis() if self._is_patient and not is_locked else redis()
        arguments = [str(int(not self._is_begun)), str(COUNTING_MS), *(str(part) for hold in holds for part in hold)]
        if not _script(_FILL)([self._key], arguments, client=client):
            raise Lost(f"the count of sale {self._sale_id} {self._sku} was lost on the way")
        self._is_begun = True

    def open(self, epoch: int, free: int) -> None:
        """The epoch begins; the caller has the row locked."""
        names = [*keys(self._sale_id, self._sku, epoch), *keys(self._sale_id, self._sku, epoch - 1), self._key]
        if not _script(_OPEN)(names, [str(OLD_EPOCH_MS), str(free)]):
            raise Lost(f"the count of sale {self._sale_id} {self._sku} was lost before it was opened")


def open_at(sale_id: int, sku: str, epoch: int, free: int, granted: Sequence[tuple[UUID, int]]) -> None:
    """Begin an epoch with what the row and its holds say, all at once; the caller has the row locked."""
    counting = Counting(sale_id, sku)
    counting.add(granted)
    counting.open(epoch, free)


def retire(gates: Sequence[tuple[int, str, int]]) -> None:
    """The keys of sales that have ended: (sale, sku, epoch) each."""
    with redis().pipeline(transaction=False) as asked:
        for each in gates:
            asked.unlink(*keys(*each))
        asked.execute()


def some_granted(gates: Sequence[tuple[int, str, int, int]], most: int) -> list[tuple[int, list[UUID]]]:
    """Of each (sale, sku, epoch, cursor): the next cursor and about `most` of the requests it remembers as granted."""
    with redis().pipeline(transaction=False) as asked:
        for *gate, cursor in gates:
            asked.hscan(keys(*gate)[1], cursor, count=most)  # type: ignore[arg-type]
        return [(cursor, [UUID(request) for request in found]) for cursor, found in asked.execute()]


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
    return are_open([(sale_id, sku, epoch)])[0]


def are_open(gates: Sequence[tuple[int, str, int]]) -> list[bool]:
    """Of many (sale, sku, epoch), in one round trip."""
    with redis().pipeline(transaction=False) as asked:
        for each in gates:
            asked.exists(keys(*each)[0])
        return list(map(bool, asked.execute()))
