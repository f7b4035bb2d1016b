"""How far each group is behind: the log's end in the broker against the offsets in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from seckill.streams import bounds, cluster
from seckill.streams.models import ConsumerOffset
from seckill.topics import Topic

NOT_OURS = frozenset({"analytics"})  # keeps its offsets elsewhere


class Lag(NamedTuple):
    group: str
    topic: str
    records: int
    partitions: int  # that are behind


def measure(bootstrap_servers: str, topics: Iterable[Topic]) -> list[Lag]:
    """Of every reader of these topics; one that has never begun is behind by all there is."""
    listed = list(topics)
    ids = cluster.describe(bootstrap_servers, listed)
    starts, ends = _bounds(bootstrap_servers, listed)
    read = {
        (row.group, TopicPartition(row.topic, row.partition)): row.next_offset
        for row in ConsumerOffset.objects.filter(cluster_id=ids.id, topic_id__in=ids.topic_ids.values())
    }
    lags = []
    for topic in listed:
        for group in sorted(set(topic.readers) - NOT_OURS):
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
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        partitions = bounds.online(admin, [topic.name for topic in topics])
        starts = bounds.starts(admin, partitions)
        return starts, bounds.ends(admin, starts)
    finally:
        admin.close()
