"""Machine: partitions that are left alone for a while after a fault, twice as long each time."""

from __future__ import annotations

from kafka import TopicPartition

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
NEVER = float("inf")


class Pauses:
    """`now` is monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[TopicPartition, float] = {}
        self._seconds: dict[TopicPartition, float] = {}  # of the latest pause, also when it is over

    def begin(self, partition: TopicPartition, now: float, least_s: float = FIRST_PAUSE_S) -> float:
        """How long this one is."""
        seconds = max(least_s, min(2 * self._seconds.get(partition, 0.0), LONGEST_PAUSE_S))
        self._until[partition], self._seconds[partition] = now + seconds, seconds
        return seconds

    def end(self, partition: TopicPartition) -> None:
        """It is over; the next one is longer, unless it is forgotten first."""
        self._until.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        self._until.pop(partition, None)
        self._seconds.pop(partition, None)

    def rests(self, partition: TopicPartition) -> bool:
        return partition in self._until

    def due(self, now: float) -> list[TopicPartition]:
        return [partition for partition, until in self._until.items() if until <= now]

    @property
    def next_at(self) -> float:
        return min(self._until.values(), default=NEVER)
