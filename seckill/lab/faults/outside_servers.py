"""Table: servers that a case's stack uses instead of its own, as if an operator already had them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from seckill.stack.postgres_pair import PostgresPair
from seckill.stack.redis_groups import RedisCluster, RedisSentinels


class OutsideServers(AbstractContextManager["OutsideServers"], Protocol):
    """Servers that run inside the block; `settings` are the variables that lead a stack to them."""

    @property
    def settings(self) -> Mapping[str, str]: ...


OUTSIDE_SERVERS: dict[str, Callable[[Path], OutsideServers]] = {
    "postgres-pair": PostgresPair,
    "redis-cluster": RedisCluster,
    "redis-sentinels": RedisSentinels,
}
