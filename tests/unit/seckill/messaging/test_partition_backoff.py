"""Pauses of failing partitions grow up to a limit, and start over after a success."""

from __future__ import annotations

from kafka import TopicPartition

from seckill.messaging.partition_backoff import FIRST_PAUSE_SECONDS, NEVER, PAUSE_SECONDS_MAX, PartitionBackoff

PARTITION, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)


def test_each_pause_in_a_row_is_twice_as_long_up_to_the_limit() -> None:
    backoff = PartitionBackoff()
    lengths = []
    for _ in range(20):
        lengths.append(backoff.start_pause(PARTITION, 0.0))
        backoff.end_pause(PARTITION)
    assert lengths[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert lengths[-1] == PAUSE_SECONDS_MAX


def test_a_forgotten_partition_starts_over() -> None:
    backoff = PartitionBackoff()
    backoff.start_pause(PARTITION, 0.0)
    backoff.forget(PARTITION)
    assert not backoff.is_paused(PARTITION)
    assert backoff.start_pause(PARTITION, 1.0) == FIRST_PAUSE_SECONDS


def test_a_pause_expires_on_its_own_and_other_partitions_are_not_paused() -> None:
    backoff = PartitionBackoff()
    assert backoff.next_at == NEVER
    length = backoff.start_pause(PARTITION, 10.0)
    assert backoff.is_paused(PARTITION) and not backoff.is_paused(OTHER)
    assert backoff.next_at == 10.0 + length
    assert backoff.expired(10.0) == []
    assert backoff.expired(10.0 + length) == [PARTITION]
