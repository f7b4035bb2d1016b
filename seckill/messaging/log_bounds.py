"""Shell: first and last offsets of partitions. A partition that does not answer is missing from the result; the others
are not affected."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NodeNotReadyError

ANSWER_MS_MAX = 3000
BROKER_FAULTS = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)
"""Faults of the whole broker, where a request for each partition would fail, too."""


def online_partitions(admin: KafkaAdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions of these topics that have a leader."""
    return [
        TopicPartition(topic["name"], each["partition_index"])
        for topic in admin.describe_topics(list(topics))
        for each in topic["partitions"]
        if not each["error_code"] and each["leader_id"] >= 0
    ]


def end_offsets(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, OffsetSpec.LATEST)


def start_offsets(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, OffsetSpec.EARLIEST)


def _offsets(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], which: OffsetSpec
) -> dict[TopicPartition, int]:
    """One request for all partitions; if one of them makes it fail, one request for each."""
    if not partitions:
        return {}
    try:
        return _request(admin, partitions, which)
    except BROKER_FAULTS:
        raise
    except KafkaError:
        found: dict[TopicPartition, int] = {}
        for partition in partitions:
            try:
                found |= _request(admin, [partition], which)
            except BROKER_FAULTS:
                raise
            except KafkaError:
                continue
        return found


def _request(
    admin: KafkaAdminClient, partitions: Collection[TopicPartition], which: OffsetSpec
) -> dict[TopicPartition, int]:
    response = admin.list_partition_offsets(dict.fromkeys(partitions, which), timeout_ms=ANSWER_MS_MAX)
    return {partition: int(at.offset) for partition, at in response.items()}
