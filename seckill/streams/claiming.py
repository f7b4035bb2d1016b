"""Shell: taking partitions over: where their logs begin and end, and whether the log is the one that was read before.

Each partition is claimed for itself: one that does not answer, or whose row a frozen predecessor holds, is tried again
later and keeps none of the others waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from seckill.streams import offsets
from seckill.streams.cluster import Cluster
from seckill.streams.offsets import Claim, OutsideTheLog

ALL_MS = 2_000
ONE_MS = 300
"""Of each partition alone, once one has spoilt the answer for all."""


class Bounds(NamedTuple):
    start: int
    end: int


def bounds(consumer: KafkaConsumer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """Of those that answer. One that is asked again, alone, gets little time: the others are not read meanwhile."""
    listed = sorted(partitions)
    try:
        return _bounds(consumer, listed, ALL_MS if len(listed) > 1 else ONE_MS)
    except KafkaError:
        if len(listed) == 1:
            return {}
        found: dict[TopicPartition, Bounds] = {}
        for partition in listed:
            try:
                found |= _bounds(consumer, [partition], ONE_MS)
            except KafkaError:
                continue
        return found


def _bounds(consumer: KafkaConsumer, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Bounds]:
    starts = consumer.beginning_offsets(partitions, timeout_ms=timeout_ms)
    ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms)
    return {partition: Bounds(starts[partition], ends[partition]) for partition in partitions}


def claim(cluster: Cluster, group: str, partition: TopicPartition, log: Bounds) -> Claim:
    """The right to work on it. `OutsideTheLog` if the log does not have the next offset; that is noted in its row."""
    topic_id = cluster.topic_ids[partition.topic]
    taken = offsets.claim(cluster.id, topic_id, partition.topic, partition.partition, group, log.start)
    if not log.start <= taken.next_offset <= log.end:
        missing = OutsideTheLog(partition, taken.next_offset, log.start, log.end)
        offsets.halt(taken, str(missing))
        raise missing
    return taken
