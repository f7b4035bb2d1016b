"""Shell: claiming assigned partitions, after a check that each log still contains the group's next offset.

Each partition is claimed on its own. If its log does not answer, or a frozen predecessor holds its row, the caller
retries it later, and the other partitions are not delayed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from seckill.messaging import offsets
from seckill.messaging.kafka_cluster import ClusterIds
from seckill.messaging.offsets import OffsetOutsideLog, PartitionClaim

ALL_BOUNDS_MS_MAX = 2_000
ONE_BOUND_MS_MAX = 300
"""For each single partition, after the request for all of them has failed."""


class LogBounds(NamedTuple):
    start: int
    end: int


def read_log_bounds(consumer: KafkaConsumer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """The bounds of the logs that answer. A request for one partition gets little time, because the others wait."""
    listed = sorted(partitions)
    try:
        return _bounds(consumer, listed, ALL_BOUNDS_MS_MAX if len(listed) > 1 else ONE_BOUND_MS_MAX)
    except KafkaError:
        if len(listed) == 1:
            return {}
        found: dict[TopicPartition, LogBounds] = {}
        for partition in listed:
            try:
                found |= _bounds(consumer, [partition], ONE_BOUND_MS_MAX)
            except KafkaError:
                continue
        return found


def _bounds(
    consumer: KafkaConsumer, partitions: list[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, LogBounds]:
    starts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
    ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms)
    return {partition: LogBounds(starts[partition], ends[partition]) for partition in partitions}


def claim_within_log(cluster: ClusterIds, group: str, partition: TopicPartition, log: LogBounds) -> PartitionClaim:
    """Claim the partition. Raises `OffsetOutsideLog`, and marks the row as halted, if the log lacks the next offset."""
    topic_id = cluster.topic_ids[partition.topic]
    claimed = offsets.claim_partition(cluster.id, topic_id, partition.topic, partition.partition, group, log.start)
    if not log.start <= claimed.next_offset <= log.end:
        missing = OffsetOutsideLog(partition, claimed.next_offset, log.start, log.end)
        offsets.mark_halted(claimed, str(missing))
        raise missing
    return claimed
