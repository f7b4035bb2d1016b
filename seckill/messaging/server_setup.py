"""What the services need from Redis and the broker before they start: no eviction, the topics, the slot map."""

from __future__ import annotations

from collections.abc import Iterable

from seckill.messaging.kafka_cluster import count_partitions, create_topics
from seckill.messaging.redis_eviction import require_no_eviction
from seckill.messaging.slot_moves import add_partitions
from seckill.messaging.slots import ensure_slot_map
from seckill.messaging.topics import PURCHASE_DIVERTED, PURCHASE_REQUESTS
from seckill.resilience.redis_servers import RedisServer


def prepare_servers(bootstrap_servers: str, redis: Iterable[RedisServer], *, keep_settings: bool = False) -> list[str]:
    """Create what is missing and return the names of the new topics. `keep_settings`: change no existing topic.

    Raises `EvictionEnabled`, `RedisError` or `KafkaError`.
    """
    require_no_eviction(redis)
    created = create_topics(bootstrap_servers, keep_settings=keep_settings)
    partitions = count_partitions(bootstrap_servers, PURCHASE_REQUESTS)
    ensure_slot_map(PURCHASE_REQUESTS, partitions)
    if PURCHASE_DIVERTED.name in created:  # purchase.requests may have grown since: both need the same partitions
        add_partitions(bootstrap_servers, PURCHASE_REQUESTS, partitions)
    return created
