"""Shell: what kafka-python 3.0.12 does not do by itself. To be looked at again with each newer one."""

from __future__ import annotations

from kafka import KafkaConsumer


def unpark(consumer: KafkaConsumer) -> None:
    """Before a poll. What it had fetched of a partition that is held still it keeps, and goes on with it later only
    where nothing is in its place when the poll begins: neither what is used up, nor what is held still by now."""
    fetcher = consumer._fetcher
    current = fetcher._next_partition_records
    if current and current.topic_partition in consumer.paused():
        fetcher._paused_partition_records[current.topic_partition] = current
        current = None
    fetcher._next_partition_records = current or None


def request_unknown_topics(consumer: KafkaConsumer) -> None:
    """Before a poll. A subscription made while a metadata request is in flight is lost: the answer, which knows nothing
    of the new topics, clears the flag that asks for an update, and the topics stay unknown for metadata_max_age_ms."""
    cluster = consumer._cluster
    if any(cluster.partitions_for_topic(topic) is None for topic in consumer.subscription() or ()):
        cluster.request_update()


def rejoin(consumer: KafkaConsumer) -> None:
    """While partitions are revoked, which comes before each joining: it forgets one that it began because a topic has
    changed, if `poll` runs out of time before the answer; it then has no partitions, sends no heartbeats, and spins."""
    consumer._coordinator.request_rejoin()
