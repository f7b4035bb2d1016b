"""Decision: may this login be tried? Each try is counted before a password is looked at, by address and by name.

A hundred tries at once are a hundred counts, so only the first few reach the hash; and of those, two are worked on at a
time, because a hash is expensive on purpose. Without Redis nobody can sign in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from gateway.admission import redis
from seckill.problems import Problem

MOST_FAILURES, REST_S = 5, 60
FAILURES_PER_NAME_MAX = 10
HASHES_MAX = 2

_hashing = threading.BoundedSemaphore(HASHES_MAX)

# KEYS: counters. ARGV: seconds a counter lives, then the limit of each. The first that is over its limit ends it, so a
# flood from one address does not use up the tries of the name.
_COUNT = """
for at, key in ipairs(KEYS) do
  if redis.call('INCR', key) == 1 or redis.call('TTL', key) < 0 then redis.call('EXPIRE', key, ARGV[1]) end
  if tonumber(redis.call('GET', key)) > tonumber(ARGV[at + 1]) then return 0 end
end
return 1
"""


def count_try(address: str, name: str) -> None:
    """`Problem` if there were too many, or if they cannot be counted."""
    try:
        allowed = redis().eval(_COUNT, 2, *_keys(address, name), REST_S, MOST_FAILURES, FAILURES_PER_NAME_MAX)
    except RedisError as fault:
        raise Problem(503, "login-unavailable", "Logins cannot be counted just now.", retry_after_s=2) from fault
    if not allowed:
        raise too_often(REST_S)


def forget_success(address: str, name: str) -> None:
    """Only failures stay counted."""
    try:
        counted = redis().pipeline()
        for key in _keys(address, name):
            counted.decr(key)
        counted.execute()
    except RedisError:
        pass  # it counts as a failure, for a minute


@contextmanager
def hashing() -> Iterator[None]:
    if not _hashing.acquire(blocking=False):
        raise too_often(1)
    try:
        yield
    finally:
        _hashing.release()


def too_often(retry_after_s: float) -> Problem:
    return Problem(429, "too-many-logins", "Too many logins were tried.", retry_after_s=retry_after_s)


def _keys(address: str, name: str) -> tuple[str, str]:
    return f"console:login:address:{address}", f"console:login:name:{name.casefold()}"
