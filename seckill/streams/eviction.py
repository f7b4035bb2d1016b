"""A Redis that throws keys away when memory is short would forget admissions, grants and due tasks: it is refused."""

from __future__ import annotations

from collections.abc import Iterable

from redis import Redis

POLICY = "noeviction"


class Evicts(Exception):
    """The Redis at an address would evict keys; the text says what to set."""


def refuse_eviction(urls: Iterable[str]) -> None:
    """`RedisError` if one does not answer."""
    for url in sorted(set(urls)):
        client: Redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)
        try:
            policy = client.info("memory").get("maxmemory_policy")
        finally:
            client.close()
        if policy != POLICY:
            where = url.rpartition("@")[2]  # without a password
            raise Evicts(f"Redis at {where} has maxmemory-policy {policy}; the sale needs {POLICY}")
