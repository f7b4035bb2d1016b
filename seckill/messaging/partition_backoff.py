"""Machine: pauses of partitions after a fault; each pause in a row is twice as long as the one before."""

from __future__ import annotations

from kafka import TopicPartition

FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 10.0
NEVER = float("inf")


class PartitionBackoff:
    """`now` is monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[TopicPartition, float] = {}
        self._seconds: dict[TopicPartition, float] = {}  # of the latest pause, even after its end

    def start_pause(self, partition: TopicPartition, now: float, least_s: float = FIRST_PAUSE_SECONDS) -> float:
        """Returns its length in seconds."""
        seconds = max(least_s, min(2 * self._seconds.get(partition, 0.0), PAUSE_SECONDS_MAX))
        self._until[partition], self._seconds[partition] = now + seconds, seconds
        return seconds

    def end_pause(self, partition: TopicPartition) -> None:
        """The next pause is longer, unless `forget` comes first."""
        self._until.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """The partition works again, or is gone: its next pause is a first one."""
        self._until.pop(partition, None)
        self._seconds.pop(partition, None)

    def is_paused(self, partition: TopicPartition) -> bool:
        return partition in self._until

    def expired(self, now: float) -> list[TopicPartition]:
        return [partition for partition, until in self._until.items() if until <= now]

    @property
    def next_at(self) -> float:
        return min(self._until.values(), default=NEVER)
