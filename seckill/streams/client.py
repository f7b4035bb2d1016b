"""Shell: what kafka-python 3.0.12 does not do by itself. To be looked at again with each newer one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

METADATA_MS = 5_000
"""A leader that joined before it knew the topics assigns nothing, and looks again only when it hears of them."""


def join(
    bootstrap_servers: str, client_id: str, group: str, *, most_records: int, patience_ms: int, session_ms: int
) -> KafkaConsumer:
    """A consumer that commits when it is told to, and never chooses an offset by itself."""
    return KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        client_id=client_id,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_poll_records=most_records,
        fetch_max_wait_ms=patience_ms,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 6,
        metadata_max_age_ms=METADATA_MS,
    )


class Polled(NamedTuple):
    records: dict[TopicPartition, Sequence[Any]]
    lost: frozenset[TopicPartition] = frozenset()  # whose log does not have what comes next


def poll(consumer: KafkaConsumer, timeout_ms: float, most_records: int) -> Polled:
    """One partition whose log has changed is no reason to fail for all of them."""
    unpark(consumer)
    request_unknown_topics(consumer)
    try:
        return Polled(consumer.poll(timeout_ms=timeout_ms, max_records=most_records))
    except OffsetOutOfRangeError as fault:
        return Polled({}, frozenset(fault.args[0]))
    except LogTruncationError as fault:
        return Polled({}, frozenset(fault.divergent_offsets))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped there
    """Tells two functions of partitions that are assigned or revoked."""

    def __init__(
        self, assigned: Callable[[Sequence[TopicPartition]], None], revoked: Callable[[Sequence[TopicPartition]], None]
    ) -> None:
        self._assigned, self._revoked = assigned, revoked

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._assigned(assigned)

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        self._revoked(revoked)


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
