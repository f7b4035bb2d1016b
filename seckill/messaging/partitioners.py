"""Strategies that map a key to a partition. `KafkaPartitioner` adapts each of them to kafka-python.

They differ when a topic grows. `murmur2`, like any "hash modulo count", moves most keys to other partitions at once. A
hash ring moves only the share of the new partitions. A slot table moves nothing until an operator moves slots one by
one, which is the only way to keep each user's requests in order while the topic grows.
"""

from __future__ import annotations

import bisect
import random
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from kafka.partitioner import Partitioner
from kafka.partitioner.default import murmur2

SLOTS = 1024
RING_POINTS_PER_PARTITION = 64
"""More points give more even shares."""


class PartitionChooser(Protocol):
    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int: ...


class KafkaPartitioner(Partitioner):  # type: ignore[misc]  # untyped there
    """`KafkaProducer(partitioner=KafkaPartitioner(HashSlots(table)))`."""

    def __init__(self, way: PartitionChooser) -> None:
        self._way = way

    def partition(
        self,
        topic: str,
        key: object,
        serialized_key: bytes | None,
        value: object,
        serialized_value: bytes,
        cluster: Any,
    ) -> int:
        all_partitions = sorted(cluster.partitions_for_topic(topic))
        return self._way(serialized_key, all_partitions, list(cluster.available_partitions_for_topic(topic)))


def by_murmur2(key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
    """The default of every Kafka client, so all of them send a key to the same partition."""
    assert key is not None
    return all_partitions[int(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class RoundRobin:
    """Partitions in turn, whatever the key: even shares, no order by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        with self._lock:
            number, self._next = self._next, self._next + 1
        return all_partitions[number % len(all_partitions)]


class RandomPartition:
    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        return self._chance.choice(available or all_partitions)


class StickyPartition:
    """Many records to one partition before the next is chosen (KIP-480): fewer, larger batches; no order by key."""

    def __init__(self, records: int = 500, chance: random.Random | None = None) -> None:
        self._records = records
        self._chance = chance or random.Random()
        self._lock = threading.Lock()
        self._left = 0
        self._at = 0

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        with self._lock:
            if self._left == 0 or self._at not in all_partitions:
                self._at, self._left = self._chance.choice(available or all_partitions), self._records
            self._left -= 1
            return self._at


class HashRing:
    """Consistent hashing (Karger et al., 1997): a new partition takes its share from the others; nothing else moves."""

    def __init__(self) -> None:
        self._rings: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        assert key is not None
        places, owners = self._ring(tuple(all_partitions))
        return owners[bisect.bisect(places, _hash(key)) % len(owners)]

    def _ring(self, partitions: tuple[int, ...]) -> tuple[list[int], list[int]]:
        if partitions not in self._rings:
            points = sorted(
                (_hash(b"%d/%d" % (partition, point)), partition)
                for partition in partitions
                for point in range(RING_POINTS_PER_PARTITION)
            )
            self._rings[partitions] = [place for place, _ in points], [owner for _, owner in points]
        return self._rings[partitions]


@dataclass(frozen=True, slots=True)
class SlotTable:
    """The partition of each slot. A key's slot never changes; the table changes one slot at a time."""

    version: int
    partition_of: tuple[int, ...]

    @classmethod
    def even(cls, partitions: int) -> SlotTable:
        return cls(1, tuple(slot % partitions for slot in range(SLOTS)))

    def moves_to(self, partitions: int) -> dict[int, int]:
        """The fewest moves that give this number of partitions even shares: slot → new partition."""
        most = [SLOTS // partitions + (number < SLOTS % partitions) for number in range(partitions)]
        held = [0] * partitions
        to_move = []
        for slot, partition in enumerate(self.partition_of):
            if partition < partitions and held[partition] < most[partition]:
                held[partition] += 1
            else:
                to_move.append(slot)
        free = [partition for partition in range(partitions) for _ in range(most[partition] - held[partition])]
        return dict(zip(to_move, free, strict=True))

    def moved(self, slot: int, partition: int) -> SlotTable:
        changed = (*self.partition_of[:slot], partition, *self.partition_of[slot + 1 :])
        return replace(self, version=self.version + 1, partition_of=changed)


class HashSlots:
    """By the slot table, whatever number of partitions the broker reports."""

    def __init__(self, table: SlotTable) -> None:
        self.table = table

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        assert key is not None
        return self.table.partition_of[slot_of(key)]


@lru_cache(maxsize=4096)  # a purchase needs its slot three times
def slot_of(key: bytes) -> int:
    return _hash(key) % SLOTS


def _hash(content: bytes) -> int:
    """32 well-mixed bits, the same on every machine and in every version: another hash would give users other slots."""
    return ((zlib.crc32(content) ^ 0xA5A5A5A5) * 0x9E3779B1 & 0xFFFFFFFF) ^ int(murmur2(content) & 0xFFFFFFFF)
