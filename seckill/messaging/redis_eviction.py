"""Refuses a Redis that evicts keys when memory is short, because it would lose admissions, grants and due tasks."""

from __future__ import annotations

from collections.abc import Iterable

from seckill.resilience import redis_client

REQUIRED_POLICY = "noeviction"
TIMEOUT_S = 5.0


class EvictionEnabled(Exception):
    """A Redis would evict keys; the text says what to set."""


def require_no_eviction(urls: Iterable[str]) -> None:
    """Raises `EvictionEnabled`, or `RedisError` if a Redis does not answer. A replica may be promoted, so it counts."""
    for url in sorted(set(urls)):
        for name, client in redis_client.servers_of(url, TIMEOUT_S):
            try:
                policy = client.info("memory").get("maxmemory_policy")
            finally:
                client.close()
            if policy != REQUIRED_POLICY:
                raise EvictionEnabled(
                    f"Redis at {name} has maxmemory-policy {policy}; the sale needs {REQUIRED_POLICY}"
                )
