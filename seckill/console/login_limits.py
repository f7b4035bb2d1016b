"""Decision: may this login be tried? Every attempt is counted by address and by name before the password is checked.

Of a hundred simultaneous attempts only the first few reach the password hash, and only two hashes run at a time,
because a hash is slow on purpose. Without Redis nobody can sign in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from gateway.admission import redis_connection
from seckill.resilience.admission_keys import admission_key
from seckill.web.problems import Problem

FAILURES_MAX, WINDOW_S = 5, 60
FAILURES_PER_NAME_MAX = 10
HASHES_MAX = 2

_hash_slots = threading.BoundedSemaphore(HASHES_MAX)

# KEYS: counters. ARGV: seconds that a counter lives, then the limit of each. The first counter over its limit ends the
# script, so a flood from one address does not use up the attempts of a name.
_COUNT = """
for at, key in ipairs(KEYS) do
  if redis.call('INCR', key) == 1 or redis.call('TTL', key) < 0 then redis.call('EXPIRE', key, ARGV[1]) end
  if tonumber(redis.call('GET', key)) > tonumber(ARGV[at + 1]) then return 0 end
end
return 1
"""


def count_attempt(address: str, name: str) -> None:
    """Raises `Problem` after too many attempts, or if they cannot be counted."""
    try:
        is_allowed = redis_connection().eval(
            _COUNT, 2, *_keys(address, name), WINDOW_S, FAILURES_MAX, FAILURES_PER_NAME_MAX
        )
    except RedisError as fault:
        raise Problem(503, "login-unavailable", "Logins cannot be counted at the moment.", retry_after_s=2) from fault
    if not is_allowed:
        raise too_many_logins(WINDOW_S)


def uncount_success(address: str, name: str) -> None:
    """Only failures stay counted."""
    try:
        pipeline = redis_connection().pipeline()
        for key in _keys(address, name):
            pipeline.decr(key)
        pipeline.execute()
    except RedisError:
        pass  # the success counts as a failure until the counter expires


@contextmanager
def password_hash_slot() -> Iterator[None]:
    if not _hash_slots.acquire(blocking=False):
        raise too_many_logins(1)
    try:
        yield
    finally:
        _hash_slots.release()


def too_many_logins(retry_after_s: float) -> Problem:
    return Problem(429, "too-many-logins", "Too many login attempts.", retry_after_s=retry_after_s)


def _keys(address: str, name: str) -> tuple[str, str]:
    return admission_key(f"console:login:address:{address}"), admission_key(f"console:login:name:{name.casefold()}")
