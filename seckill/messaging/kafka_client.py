"""Shell: workarounds for kafka-python 3.0.12. Check each of them against a newer version before updating."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError, RetriableError

from seckill.config.kafka_clients import client_options

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
METADATA_AGE_MS_MAX = 5_000
"""A group leader that joins before it knows the topics assigns nothing until its metadata is refreshed."""


def create_consumer(
    bootstrap_servers: str,
    client_id: str,
    group: str,
    *,
    batch_records_max: int,
    fetch_wait_ms: int,
    session_timeout_ms: int,
) -> KafkaConsumer:  # fmt: skip
    """A consumer that neither commits on its own nor ever resets an offset.

    Without fetch sessions (KIP-227): after a broker of Apache Kafka had been killed, two consumers with sessions never
    again read the partitions that it had led. mqcore has no sessions.
    """
    return KafkaConsumer(
        **client_options(bootstrap_servers),
        client_id=client_id,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_poll_records=batch_records_max,
        fetch_max_wait_ms=fetch_wait_ms,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // 6,
        metadata_max_age_ms=METADATA_AGE_MS_MAX,
        enable_incremental_fetch_sessions=False,
    )


class PolledRecords(NamedTuple):
    records: dict[TopicPartition, Sequence[Any]]
    lost: frozenset[TopicPartition] = frozenset()  # their logs lack the next offset


def poll_records(consumer: KafkaConsumer, timeout_ms: float, batch_records_max: int) -> PolledRecords:
    """Poll once. A partition whose log has changed is reported in `lost` instead of failing the whole poll.

    There are no records while the coordinator is being looked for. The client lets the fault through if a request for
    metadata fails meanwhile, which ended a consumer whenever a broker of Apache Kafka died at a bad moment.
    """
    release_parked_records(consumer)
    request_unknown_topics(consumer)
    try:
        return PolledRecords(consumer.poll(timeout_ms=timeout_ms, max_records=batch_records_max))
    except OffsetOutOfRangeError as fault:
        return PolledRecords({}, frozenset(fault.args[0]))
    except LogTruncationError as fault:
        return PolledRecords({}, frozenset(fault.divergent_offsets))
    except RetriableError as fault:
        log.warning("not polled", extra={"reason": str(fault)})
        time.sleep(RETRY_SECONDS)
        return PolledRecords({})


class AssignmentListener(ConsumerRebalanceListener):  # type: ignore[misc]  # untyped there
    """Calls one function for assigned partitions, another for revoked ones."""

    def __init__(
        self, assigned: Callable[[Sequence[TopicPartition]], None], revoked: Callable[[Sequence[TopicPartition]], None]
    ) -> None:
        self._assigned, self._revoked = assigned, revoked

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._assigned(assigned)

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        self._revoked(revoked)


def release_parked_records(consumer: KafkaConsumer) -> None:
    """Call this before a poll.

    The client keeps the fetched records of a paused partition, but it only returns to them if its current-records slot
    is empty when the poll begins. So move the records of a partition that has been paused since out of the slot, and
    clear the slot if its records are used up.
    """
    fetcher = consumer._fetcher
    current = fetcher._next_partition_records
    if current and current.topic_partition in consumer.paused():
        fetcher._paused_partition_records[current.topic_partition] = current
        current = None
    fetcher._next_partition_records = current or None


def request_unknown_topics(consumer: KafkaConsumer) -> None:
    """Call this before a poll.

    A subscription made while a metadata request is in flight is lost: the response, which lacks the new topics, clears
    the flag that asks for an update, and the topics stay unknown for `metadata_max_age_ms`.
    """
    cluster = consumer._cluster
    if any(cluster.partitions_for_topic(topic) is None for topic in consumer.subscription() or ()):
        cluster.request_update()


def request_rejoin(consumer: KafkaConsumer) -> None:
    """Call this while partitions are revoked, which happens before each join.

    If `poll` times out during a rejoin that a changed topic has caused, the client forgets the rejoin; it then has no
    partitions, sends no heartbeats, and spins.
    """
    consumer._coordinator.request_rejoin()
