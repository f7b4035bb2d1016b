"""K and G: where the topics end, and the offsets that groups have committed. Their records are read by records.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from seckill.consistency.rows import GroupOffset
from seckill.topics import TOPICS

BOOTSTRAP_MS = 15_000
"""Five seconds were seen to be too few, on a crowded machine and with a broker in Java."""


def cut(bootstrap_servers: str) -> dict[TopicPartition, int]:
    """The end of every partition, now."""
    consumer = reader(bootstrap_servers)
    try:
        return dict(consumer.end_offsets(partitions(consumer)))
    finally:
        consumer.close()


def reader(bootstrap_servers: str) -> Any:
    """A consumer of no group; `KafkaError` if nobody answers."""
    return KafkaConsumer(bootstrap_servers=bootstrap_servers, client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)


def committed(bootstrap_servers: str, groups: Iterable[str]) -> list[GroupOffset]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)
    try:
        return [
            GroupOffset(group, partition.topic, partition.partition, place.offset)
            for group in groups
            for partition, place in admin.list_group_offsets(group)[group].items()
            if place.offset >= 0
        ]
    finally:
        admin.close()


def partitions(consumer: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in TOPICS
        for partition in sorted(consumer.partitions_for_topic(topic) or ())
    ]
