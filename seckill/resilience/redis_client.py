"""Shell: Redis clients with short timeouts and a circuit breaker.

A Redis that hangs costs one timeout. After that, calls fail at once with a `RedisError` until the breaker lets one try.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import ConnectionPool, Redis
from redis.asyncio import ConnectionPool as AsyncConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from seckill.resilience.circuit_breaker import BreakerState, CircuitBreaker

TIMEOUT_SECONDS = 1.0
OPEN_SECONDS = 5.0


class CircuitOpen(RedisTimeoutError):
    """Redis timed out a moment ago, so this call was not made."""


@contextmanager
def _guarded(breaker: CircuitBreaker) -> Iterator[None]:
    if breaker.state(time.monotonic()) is BreakerState.OPEN:
        raise CircuitOpen("Redis timed out a moment ago, so it is not called")
    try:
        yield
    except RedisTimeoutError:
        breaker.record_failure(time.monotonic())
        raise
    breaker.record_success()


class _GuardedConnection:
    """Mixed into a connection class, which then reports timeouts to its client's breaker."""

    breaker: CircuitBreaker

    def connect(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return super().connect(*arguments, **named)  # type: ignore[misc]

    def send_packed_command(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return super().send_packed_command(*arguments, **named)  # type: ignore[misc]

    def read_response(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return super().read_response(*arguments, **named)  # type: ignore[misc]


class _GuardedAsyncConnection:
    """The same for connections of an event loop."""

    breaker: CircuitBreaker

    async def connect(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return await super().connect(*arguments, **named)  # type: ignore[misc]

    async def send_packed_command(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return await super().send_packed_command(*arguments, **named)  # type: ignore[misc]

    async def read_response(self, *arguments: Any, **named: Any) -> Any:
        with _guarded(self.breaker):
            return await super().read_response(*arguments, **named)  # type: ignore[misc]


def connect(url: str, timeout_s: float = TIMEOUT_SECONDS, open_s: float | None = None) -> Redis:
    """A client that retries a lost connection once and a timeout never."""
    retry_once = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    pool = ConnectionPool.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True, retry=retry_once
    )
    guarded = {"breaker": CircuitBreaker(failures_max=1, open_seconds=OPEN_SECONDS if open_s is None else open_s)}
    pool.connection_class = type("Guarded", (_GuardedConnection, pool.connection_class), guarded)
    client: Redis = Redis(connection_pool=pool)
    return client


def connect_async(url: str, timeout_s: float = TIMEOUT_SECONDS, open_s: float | None = None) -> AsyncRedis:
    """The same for an event loop."""
    retry_once = AsyncRetry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    pool = AsyncConnectionPool.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True, retry=retry_once
    )
    guarded = {"breaker": CircuitBreaker(failures_max=1, open_seconds=OPEN_SECONDS if open_s is None else open_s)}
    pool.connection_class = type("Guarded", (_GuardedAsyncConnection, pool.connection_class), guarded)
    client: AsyncRedis = AsyncRedis(connection_pool=pool)
    return client
