"""Refuses a Redis that evicts keys when memory is short, because it would lose admissions, grants and due tasks."""

from __future__ import annotations

from collections.abc import Iterable

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from seckill.resilience import redis_client
from seckill.resilience.redis_servers import RedisServer, describe

REQUIRED_POLICY = "noeviction"
TIMEOUT_S = 5.0


class EvictionEnabled(Exception):
    """A Redis would evict keys; the text says what to set."""


class RedisUnavailable(RedisConnectionError):
    """A Redis does not answer or refuses; the text says which."""


def require_no_eviction(servers: Iterable[RedisServer]) -> None:
    """Raises `EvictionEnabled` or `RedisUnavailable`. A replica may be promoted, so it counts."""
    for server in servers:
        try:
            _require_no_eviction(server)
        except RedisError as fault:
            raise RedisUnavailable(f"{describe(server)}: {fault}") from fault


def _require_no_eviction(server: RedisServer) -> None:
    for name, client in redis_client.servers_of(server.url, TIMEOUT_S):
        try:
            policy = client.info("memory").get("maxmemory_policy")
        finally:
            client.close()
        if policy != REQUIRED_POLICY:
            raise EvictionEnabled(
                f"{server.name} at {name} has maxmemory-policy {policy}; the sale needs {REQUIRED_POLICY}"
            )
