"""Shell: where the logs of partitions begin and end. A partition that does not answer is left out; it never costs the
others theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NodeNotReadyError

PATIENCE_MS = 3000
NOT_THE_PARTITION = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)
"""Faults of the broker as a whole: asking it partition by partition would not help."""


def online(admin: KafkaAdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions of these topics that have a leader."""
    return [
        TopicPartition(topic["name"], each["partition_index"])
        for topic in admin.describe_topics(list(topics))
        for each in topic["partitions"]
        if not each["error_code"] and each["leader_id"] >= 0
    ]


def ends(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, OffsetSpec.LATEST)


def starts(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, OffsetSpec.EARLIEST)


def _offsets(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], which: OffsetSpec
) -> dict[TopicPartition, int]:
    """One question for all; where one of them spoils the answer, one question each."""
    if not partitions:
        return {}
    try:
        return _ask(admin, partitions, which)
    except NOT_THE_PARTITION:
        raise
    except KafkaError:
        found: dict[TopicPartition, int] = {}
        for partition in partitions:
            try:
                found |= _ask(admin, [partition], which)
            except NOT_THE_PARTITION:
                raise
            except KafkaError:
                continue
        return found


def _ask(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], which: OffsetSpec
) -> dict[TopicPartition, int]:
    told = admin.list_partition_offsets(dict.fromkeys(partitions, which), timeout_ms=PATIENCE_MS)
    return {partition: int(at.offset) for partition, at in told.items()}
