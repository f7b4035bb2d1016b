"""Refuses a Redis that evicts keys when memory is short, because it would lose admissions, grants and due tasks."""

from __future__ import annotations

from collections.abc import Iterable

from redis import Redis

REQUIRED_POLICY = "noeviction"


class EvictionEnabled(Exception):
    """A Redis would evict keys; the text says what to set."""


def require_no_eviction(urls: Iterable[str]) -> None:
    """Raises `EvictionEnabled`, or `RedisError` if a Redis does not answer."""
    for url in sorted(set(urls)):
        client: Redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)
        try:
            policy = client.info("memory").get("maxmemory_policy")
        finally:
            client.close()
        if policy != REQUIRED_POLICY:
            where = url.rpartition("@")[2]  # the address without its password
            raise EvictionEnabled(f"Redis at {where} has maxmemory-policy {policy}; the sale needs {REQUIRED_POLICY}")
