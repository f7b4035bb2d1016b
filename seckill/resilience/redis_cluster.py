"""Shell: clients of a Redis Cluster with the behaviour of our other Redis clients.

* Every fault is a `RedisError`. redis-py's RedisClusterException does not belong to that family, so it is translated.
* A call that finds its server gone asks another server for the new map of the cluster, once, and is sent again once.
* A server that hangs costs one timeout for each call; the cluster promotes its replica within a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from seckill.config.redis_address import RedisAddress

RETRIES = 1
_subscriptions = count()


class ClusterUnavailable(RedisConnectionError):
    """No server of the cluster can be reached, or no server owns the slot."""


class Cluster(RedisCluster):
    def execute_command(self, *arguments: Any, **named: Any) -> Any:
        with _redis_errors():
            return super().execute_command(*arguments, **named)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> Any:
        """Commands of different slots go to different servers, so nothing is atomic here."""
        pipeline = super().pipeline(shard_hint=shard_hint)
        execute = pipeline.execute

        def guarded(*arguments: Any, **named: Any) -> Any:
            with _redis_errors():
                return execute(*arguments, **named)

        pipeline.execute = guarded
        return pipeline


class AsyncCluster(AsyncRedisCluster):
    async def execute_command(self, *arguments: Any, **named: Any) -> Any:
        with _redis_errors():
            return await super().execute_command(*arguments, **named)


def connect(address: RedisAddress, timeout_s: float) -> Redis:
    """Asks for the map of the cluster at once. Raises `RedisError`."""
    with _redis_errors():
        client = Cluster(
            startup_nodes=[ClusterNode(host, port) for host, port in address.servers],
            retry=Retry(NoBackoff(), RETRIES), **_options(address, timeout_s),
        )  # fmt: skip
    return cast("Redis", client)


def connect_async(address: RedisAddress, timeout_s: float) -> AsyncRedis:
    client = AsyncCluster(
        startup_nodes=[AsyncClusterNode(host, port) for host, port in address.servers],
        retry=AsyncRetry(NoBackoff(), RETRIES), **_options(address, timeout_s),
    )  # fmt: skip
    return cast("AsyncRedis", client)


def connect_subscriber(address: RedisAddress, timeout_s: float) -> AsyncRedis:
    """Another server of the address with each call."""
    host, port = address.servers[next(_subscriptions) % len(address.servers)]
    client: AsyncRedis = AsyncRedis(
        host=host, port=port, health_check_interval=5,
        **_options(address, timeout_s) | {"socket_timeout": None},
    )  # fmt: skip
    return client


def find_servers(address: RedisAddress, timeout_s: float) -> list[tuple[str, int]]:
    client = cast("Cluster", connect(address, timeout_s))
    try:
        return [(str(node.host), int(node.port)) for node in client.get_nodes()]
    finally:
        client.close()


def run_ids(client: Cluster) -> str:
    """Of all masters, so every fail-over changes it."""
    answers = client.info("server", target_nodes=RedisCluster.PRIMARIES)
    each = [answers] if "run_id" in answers else answers.values()
    return ",".join(sorted(str(answer["run_id"]) for answer in each))


def _options(address: RedisAddress, timeout_s: float) -> dict[str, Any]:
    timeouts = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "decode_responses": True}
    return timeouts | ({"ssl": True} if address.has_tls else {}) | (address.options or {})


@contextmanager
def _redis_errors() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as fault:
        raise ClusterUnavailable(str(fault)) from fault
