"""The gate in Redis proposes who may get a unit, so that rejected requests do not load Postgres. It never decides.

The keys of a sale share a hash tag. Each stock and epoch has `free` (a counter) and `granted` (request → units). The
gate remembers grants but not refusals, so proposing the same request twice takes its units once. If the keys are
missing, the gate is closed: it answers neither yes nor no, and the stock row decides alone. After FLUSHALL,
inventory/gate_rebuild.py restores the keys from the row and its holds.
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

from seckill.resilience import redis_client


class Proposal(IntEnum):
    REFUSED = 0
    GRANTED = 1
    CLOSED = 2


# KEYS: free, granted. ARGV: "request units request units …". Returns one digit per request. Arguments and results are
# one string each, because redis-py and Redis would otherwise parse a thousand of them one by one.
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

# KEYS: free, granted. ARGV: requests. Returns the units of each granted request to `free`, once.
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

# A new epoch is built in a separate hash, which becomes `granted` when the epoch opens. Its field '' proves that Redis
# has not lost the hash in between.
# KEYS: the hash. ARGV: 1 to create it, its time to live in milliseconds, then request, units, … Returns 0 if Redis has
# lost it.
_ADD_GRANTS = """
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

# KEYS: free, granted, free and granted of the previous epoch, the hash.
# ARGV: time to live of the previous epoch's keys in milliseconds, free units.
_OPEN_EPOCH = """
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
BUILDING_KEPT_MS = 60_000
PATIENT_CALL_SECONDS_MAX = 5.0
OLD_EPOCH_KEPT_MS = 60_000
"""Running batches may still use the previous epoch's keys. No batch runs this long."""


@lru_cache(maxsize=1)
def redis() -> Redis:
    return redis_client.connect(settings.ENVIRONMENT.gate_redis_url)


@lru_cache(maxsize=1)
def _patient_redis() -> Redis:
    return redis_client.connect(settings.ENVIRONMENT.gate_redis_url, PATIENT_CALL_SECONDS_MAX)


@lru_cache(maxsize=8)
def _script(source: str) -> Any:
    return redis().register_script(source)


def keys(sale_id: int, sku: str, epoch: int) -> list[str]:
    base = f"sale:{{{sale_id}}}:gate:{sku}:{epoch}"
    return [f"{base}:free", f"{base}:granted"]


def propose(sale_id: int, sku: str, epoch: int, requests: Sequence[tuple[UUID, int]]) -> list[Proposal]:
    """One proposal for each (request, units)."""
    argument = " ".join([f"{request} {units}" for request, units in requests])
    digits = _script(_PROPOSE)(keys(sale_id, sku, epoch), [argument])
    return [Proposal(int(digit)) for digit in digits]


def release_grants(sale_id: int, sku: str, epoch: int, requests: Sequence[UUID]) -> None:
    if requests:
        _script(_RELEASE)(keys(sale_id, sku, epoch), [str(request) for request in requests])


class EpochLost(RedisError):
    """Redis has lost the epoch that was being built. Build it again."""


class EpochBuilder:
    """Builds the next epoch of a gate in several calls. Two builders of one gate do not disturb each other."""

    def __init__(self, sale_id: int, sku: str, *, is_patient: bool = False) -> None:
        """`is_patient`: wait longer for a slow Redis, except while the stock row is locked."""
        self._sale_id, self._sku = sale_id, sku
        self._is_patient = is_patient
        self._key = f"sale:{{{sale_id}}}:gate:{sku}:counting:{uuid4()}"
        self._is_created = False

    def add_grants(self, holds: Sequence[tuple[UUID, int]], *, is_locked: bool = False) -> None:
        """Units by request; zero units remove the request. Raises `EpochLost` if Redis has lost the earlier grants."""
        client = _patient_redis() if self._is_patient and not is_locked else redis()
        is_first = str(int(not self._is_created))
        arguments = [is_first, str(BUILDING_KEPT_MS), *(str(part) for hold in holds for part in hold)]
        if not _script(_ADD_GRANTS)([self._key], arguments, client=client):
            raise EpochLost(f"Redis lost the new epoch of sale {self._sale_id} {self._sku} while it was being built")
        self._is_created = True

    def open(self, epoch: int, free: int) -> None:
        """Make the epoch current. The caller has locked the stock row."""
        names = [*keys(self._sale_id, self._sku, epoch), *keys(self._sale_id, self._sku, epoch - 1), self._key]
        if not _script(_OPEN_EPOCH)(names, [str(OLD_EPOCH_KEPT_MS), str(free)]):
            raise EpochLost(f"Redis lost the new epoch of sale {self._sale_id} {self._sku} before it was opened")


def delete_gates(gates: Sequence[tuple[int, str, int]]) -> None:
    """Delete the keys of each (sale, sku, epoch)."""
    with redis().pipeline(transaction=False) as pipeline:
        for each in gates:
            for name in keys(*each):
                pipeline.unlink(name)
        pipeline.execute()


def scan_grants(gates: Sequence[tuple[int, str, int, int]], count: int) -> list[tuple[int, list[UUID]]]:
    """For each (sale, sku, epoch, cursor): the next cursor and about `count` of the granted requests."""
    with redis().pipeline(transaction=False) as pipeline:
        for *gate, cursor in gates:
            pipeline.hscan(keys(*gate)[1], cursor, count=count)  # type: ignore[arg-type]
        return [(cursor, [UUID(request) for request in found]) for cursor, found in pipeline.execute()]


SYNCED_RUN_KEY = "gate:run"
"""Run id of the Redis process when all gates were last known to agree with their stock rows."""


def redis_run_id() -> str:
    """Of the running Redis, or of all masters of a cluster: see `redis_client.run_ids`."""
    return redis_client.run_ids(redis())


def was_synced_in_run(run_id: str) -> bool:
    return bool(redis().get(SYNCED_RUN_KEY) == run_id)


def mark_synced_in_run(run_id: str) -> None:
    redis().set(SYNCED_RUN_KEY, run_id)


def is_open(sale_id: int, sku: str, epoch: int) -> bool:
    """Whether the keys of this epoch exist; FLUSHALL removes them."""
    return are_open([(sale_id, sku, epoch)])[0]


def are_open(gates: Sequence[tuple[int, str, int]]) -> list[bool]:
    """`is_open` for each (sale, sku, epoch), in one round trip."""
    with redis().pipeline(transaction=False) as pipeline:
        for each in gates:
            pipeline.exists(keys(*each)[0])
        return list(map(bool, pipeline.execute()))
