"""A Redis that would throw keys away is refused at the start, and one that would not is not."""

from __future__ import annotations

import pytest
from redis import Redis

from seckill.streams.eviction import Evicts, refuse_eviction
from tests.services import Services


def test_a_redis_that_evicts_is_refused_by_name(redis: Redis, services: Services) -> None:
    refuse_eviction([services.redis_url])
    before = str(redis.config_get("maxmemory-policy")["maxmemory-policy"])
    redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Evicts, match=f"{services.redis_port}/0 has maxmemory-policy allkeys-lru; .* noeviction"):
            refuse_eviction([services.redis_url])
    finally:
        redis.config_set("maxmemory-policy", before)
