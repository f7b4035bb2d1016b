"""How far each group is behind: the log ends of the broker minus the offsets in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.messaging import kafka_cluster, log_bounds
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.topics import Topic

GROUPS_WITH_OWN_OFFSETS = frozenset({"analytics"})  # Spark keeps them in its checkpoint


class Lag(NamedTuple):
    group: str
    topic: str
    records: int
    partitions: int  # number of partitions with a lag


def measure_lag(bootstrap_servers: str, topics: Iterable[Topic]) -> list[Lag]:
    """The lag of every reader of these topics. A group without offsets is behind by the whole log."""
    listed = list(topics)
    ids = kafka_cluster.describe_cluster(bootstrap_servers, listed)
    starts, ends = _bounds(bootstrap_servers, listed)
    read = {
        (row.group, TopicPartition(row.topic, row.partition)): row.next_offset
        for row in ConsumerOffset.objects.filter(cluster_id=ids.id, topic_id__in=ids.topic_ids.values())
    }
    lags = []
    for topic in listed:
        for group in sorted(set(topic.readers) - GROUPS_WITH_OWN_OFFSETS):
            behind = [
                max(0, end - read.get((group, partition), starts[partition]))
                for partition, end in ends.items()
                if partition.topic == topic.name
            ]
            lags.append(Lag(group, topic.name, sum(behind), sum(1 for records in behind if records)))
    return lags


def _bounds(
    bootstrap_servers: str, topics: Iterable[Topic]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        partitions = log_bounds.online_partitions(admin, [topic.name for topic in topics])
        starts = log_bounds.start_offsets(admin, partitions)
        return starts, log_bounds.end_offsets(admin, starts)
    finally:
        admin.close()
