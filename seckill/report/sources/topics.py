"""Shell: where the topics end, and which offsets the groups have committed. `records.py` reads the records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import TOPICS
from seckill.report.rows import GroupOffset

BOOTSTRAP_MS = 30_000
"""Fifteen seconds were not always enough on a busy machine with three brokers in Java and a login."""


def topic_ends(bootstrap_servers: str) -> dict[TopicPartition, int]:
    """The current end offset of every partition. Raises `KafkaError` if no broker answers."""
    consumer = open_consumer(bootstrap_servers)
    try:
        return dict(consumer.end_offsets(topic_partitions(consumer)))
    finally:
        consumer.close()


def open_consumer(bootstrap_servers: str) -> Any:
    """A consumer without a group. Raises `KafkaError` if no broker answers."""
    return KafkaConsumer(**client_options(bootstrap_servers), client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)


def read_committed_offsets(bootstrap_servers: str, groups: Iterable[str]) -> list[GroupOffset]:
    admin = KafkaAdminClient(**client_options(bootstrap_servers), client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)
    try:
        return [
            GroupOffset(group, partition.topic, partition.partition, committed.offset)
            for group in groups
            for partition, committed in admin.list_group_offsets(group)[group].items()
            if committed.offset >= 0
        ]
    finally:
        admin.close()


def topic_partitions(consumer: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in TOPICS
        for partition in sorted(consumer.partitions_for_topic(topic) or ())
    ]
