"""Admission: one script in Redis decides, in one step and by one clock, whether a request enters the queue.

The key is looked up before anything is refused: a known one gets its own answer again, whatever has happened since.
Redis TIME is the clock of the whole sale: window, admission time and deadline rest on it, so a gateway whose own clock
is wrong changes nothing. Without Redis nobody is admitted.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from seckill.problems import Problem

DEADLINE_MS = 10 * 60 * 1000
REMEMBER_S = 24 * 3600
USER_RATE, USER_BURST = 5, 20  # purchases a second, and at once
ADDRESS_RATE, ADDRESS_BURST = 200, 1000


class Verdict(StrEnum):
    ADMITTED = "admitted"
    KNOWN = "known"
    OTHER_BODY = "other_body"
    NOT_OPEN_YET = "not_open_yet"
    CLOSED = "closed"
    TOO_MANY = "too_many"


class Admitted(NamedTuple):
    verdict: Verdict
    now_ms: int
    admitted_at_ms: int
    deadline_ms: int


# KEYS: remembered request, user bucket, address bucket.
# ARGV: fingerprint, opens, closes, deadline after, remember s, user rate, burst, address rate, burst.
_ADMIT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], 'body', 'at', 'deadline')
if known[1] then
  if known[1] ~= ARGV[1] then return {'other_body', now, 0, 0} end
  return {'known', now, tonumber(known[2]), tonumber(known[3])}
end
if now < tonumber(ARGV[2]) then return {'not_open_yet', now, 0, 0} end
if now >= tonumber(ARGV[3]) then return {'closed', now, 0, 0} end
local function take(key, rate, burst)
  local bucket = redis.call('HMGET', key, 'tokens', 'at')
  local tokens = tonumber(bucket[1] or burst)
  tokens = math.min(burst, tokens + (now - tonumber(bucket[2] or now)) * rate / 1000)
  local enough = tokens >= 1
  if enough then tokens = tokens - 1 end
  redis.call('HSET', key, 'tokens', tostring(tokens), 'at', now)
  redis.call('PEXPIRE', key, math.ceil(burst / rate * 1000) + 1000)
  return enough
end
if not take(KEYS[2], tonumber(ARGV[6]), tonumber(ARGV[7])) then return {'too_many', now, 0, 0} end
if not take(KEYS[3], tonumber(ARGV[8]), tonumber(ARGV[9])) then return {'too_many', now, 0, 0} end
local deadline = now + tonumber(ARGV[4])
redis.call('HSET', KEYS[1], 'body', ARGV[1], 'at', now, 'deadline', deadline)
redis.call('EXPIRE', KEYS[1], ARGV[5])
return {'admitted', now, now, deadline}
"""


@lru_cache(maxsize=1)
def redis() -> Redis:
    client: Redis = Redis.from_url(
        settings.ENVIRONMENT.admission_redis_url, socket_timeout=2, socket_connect_timeout=2, decode_responses=True
    )
    return client


@lru_cache(maxsize=1)
def _script() -> Any:
    return redis().register_script(_ADMIT)


def admit(
    request_id: UUID, fingerprint: str, user_id: str, address: str, opens_at_ms: int, closes_at_ms: int
) -> Admitted:
    keys = [f"admission:request:{request_id}", f"admission:user:{user_id}", f"admission:address:{address}"]
    arguments = [
        fingerprint, opens_at_ms, closes_at_ms, DEADLINE_MS, REMEMBER_S, USER_RATE, USER_BURST, ADDRESS_RATE,
        ADDRESS_BURST,
    ]  # fmt: skip
    try:
        verdict, now_ms, at_ms, deadline_ms = _script()(keys, arguments)
    except RedisError as fault:
        raise Problem(503, "admission-unavailable", "Nobody can be admitted just now.", retry_after_s=1) from fault
    return Admitted(Verdict(verdict), now_ms, at_ms, deadline_ms)
