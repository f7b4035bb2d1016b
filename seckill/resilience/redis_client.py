"""Shell: Redis clients with short timeouts and a circuit breaker, for one server or for servers behind Sentinels.

A Redis that hangs costs one timeout. After that, calls fail at once with a `RedisError` until the breaker lets one try.
For a cluster see seckill/resilience/redis_cluster.py; `connect` chooses by the address.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import ConnectionPool, Redis, sentinel
from redis.asyncio import ConnectionPool as AsyncConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import sentinel as async_sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from seckill.config.redis_address import CLUSTER, SENTINEL, RedisAddress, parse_redis_address, without_password
from seckill.resilience import redis_cluster
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
    address = parse_redis_address(url)
    if address.kind == CLUSTER:
        return redis_cluster.connect(address, timeout_s)
    options = _options(address, timeout_s) | {
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)), "decode_responses": True,
    }  # fmt: skip
    guarded = {"breaker": CircuitBreaker(failures_max=1, open_seconds=OPEN_SECONDS if open_s is None else open_s)}
    if address.kind == SENTINEL:
        base = sentinel.SentinelManagedSSLConnection if address.has_tls else sentinel.SentinelManagedConnection
        watched = sentinel.Sentinel(address.servers, sentinel_kwargs=_sentinel_options(address, timeout_s))
        pool: ConnectionPool = sentinel.SentinelConnectionPool(
            address.master_name, watched, connection_class=type("Guarded", (_GuardedConnection, base), guarded),
            **options,
        )  # fmt: skip
    else:
        pool = ConnectionPool.from_url(url, **options)
        pool.connection_class = type("Guarded", (_GuardedConnection, pool.connection_class), guarded)
    client: Redis = Redis(connection_pool=pool)
    return client


def connect_async(url: str, timeout_s: float = TIMEOUT_SECONDS, open_s: float | None = None) -> AsyncRedis:
    """The same for an event loop."""
    address = parse_redis_address(url)
    if address.kind == CLUSTER:
        return redis_cluster.connect_async(address, timeout_s)
    options = _options(address, timeout_s) | {
        "retry": AsyncRetry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)), "decode_responses": True,
    }  # fmt: skip
    guarded = {"breaker": CircuitBreaker(failures_max=1, open_seconds=OPEN_SECONDS if open_s is None else open_s)}
    if address.kind == SENTINEL:
        pool = _async_sentinel_pool(address, timeout_s, options, guarded)
    else:
        pool = AsyncConnectionPool.from_url(url, **options)
        pool.connection_class = type("Guarded", (_GuardedAsyncConnection, pool.connection_class), guarded)
    client: AsyncRedis = AsyncRedis(connection_pool=pool)
    return client


def connect_subscriber(url: str, timeout_s: float) -> AsyncRedis:
    """A client for a subscription, which may be silent for long. Every server of a cluster receives every message, so
    each call takes another one."""
    address = parse_redis_address(url)
    if address.kind == CLUSTER:
        return redis_cluster.connect_subscriber(address, timeout_s)
    options: dict[str, Any] = {
        "socket_connect_timeout": timeout_s, "health_check_interval": 5, "decode_responses": True,
    }  # fmt: skip
    if address.kind == SENTINEL:
        pool = _async_sentinel_pool(address, timeout_s, (address.options or {}) | options, None)
        client: AsyncRedis = AsyncRedis(connection_pool=pool)
    else:
        client = AsyncRedis.from_url(url, **options)
    return client


def servers_of(url: str, timeout_s: float) -> Iterator[tuple[str, Redis]]:
    """A client for each server behind the address, replicas included, with its name. Raises `RedisError`."""
    address = parse_redis_address(url)
    options: dict[str, Any] = _options(address, timeout_s) | {"decode_responses": True}
    if not address.kind:
        yield without_password(url), Redis.from_url(url, **options)
        return
    if address.kind == CLUSTER:
        found = redis_cluster.find_servers(address, timeout_s)
    else:
        watched = sentinel.Sentinel(address.servers, sentinel_kwargs=_sentinel_options(address, timeout_s))
        found = [watched.discover_master(address.master_name), *watched.discover_slaves(address.master_name)]
    for host, port in found:
        yield f"{host}:{port}", Redis(host=host, port=port, ssl=address.has_tls, **options)


def run_ids(client: Redis | redis_cluster.Cluster) -> str:
    """Identifies the running servers that hold the data: a server chooses a new id at each start, even if it loads old
    data from disk, and a promoted replica has another id than the master it replaces."""
    if isinstance(client, redis_cluster.Cluster):
        return redis_cluster.run_ids(client)
    return str(client.info("server")["run_id"])


def _options(address: RedisAddress, timeout_s: float) -> dict[str, Any]:
    """Options in the address override ours. `ConnectionPool.from_url` reads those of a single server itself."""
    own = (address.options or {}) if address.kind else {}
    return {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s} | own


def _sentinel_options(
    address: RedisAddress, timeout_s: float, retry: Retry | AsyncRetry | None = None
) -> dict[str, Any]:
    """No Sentinel is asked twice, because the next one may answer: redis-py would wait some seconds for a dead one."""
    options = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": retry or Retry(NoBackoff(), 0),
    }
    return options | (address.sentinel_options or {})


def _async_sentinel_pool(
    address: RedisAddress, timeout_s: float, options: dict[str, Any], guarded: dict[str, CircuitBreaker] | None
) -> AsyncConnectionPool:
    base = async_sentinel.SentinelManagedSSLConnection if address.has_tls else async_sentinel.SentinelManagedConnection
    connection = base if guarded is None else type("Guarded", (_GuardedAsyncConnection, base), guarded)
    asking = _sentinel_options(address, timeout_s, AsyncRetry(NoBackoff(), 0))
    watched = async_sentinel.Sentinel(address.servers, sentinel_kwargs=asking)
    pool: AsyncConnectionPool = async_sentinel.SentinelConnectionPool(
        address.master_name, watched, connection_class=connection, **options
    )
    return pool
