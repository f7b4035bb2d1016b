"""Which partition a key goes to: the ways there are; `Chosen` makes each of them a `partitioner` of kafka-python's.

They differ in what happens when a topic grows: `murmur2` and every other "hash modulo count" sends most keys elsewhere
at once; a ring moves only the share that the new partitions take; a table of slots moves nothing until a slot is moved
on purpose, one by one, which is the only way to keep a user's requests in order through a growth.
"""

from __future__ import annotations

import bisect
import random
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kafka.partitioner import Partitioner
from kafka.partitioner.default import murmur2

SLOTS = 1024
POINTS = 64
"""Places on the ring for each partition: the more, the more even."""


class Way(Protocol):
    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int: ...


class Chosen(Partitioner):  # type: ignore[misc]  # untyped there
    """`KafkaProducer(partitioner=Chosen(HashSlots(table)))`."""

    def __init__(self, way: Way) -> None:
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
    """As every Kafka client does it by default: the same key lands in the same place for all of them."""
    assert key is not None
    return all_partitions[int(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


class RoundRobin:
    """One after the other, whatever the key: even, and without any order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        with self._lock:
            number, self._next = self._next, self._next + 1
        return all_partitions[number % len(all_partitions)]


class Random:
    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        return self._chance.choice(available or all_partitions)


class Sticky:
    """So many records to one partition before it chooses the next (KIP-480): fewer, larger batches. No order by key."""

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


class Ring:
    """Consistent hashing (Karger et al., 1997): a new partition takes its share from all others, nothing else moves."""

    def __init__(self) -> None:
        self._rings: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        assert key is not None
        places, owners = self._ring(tuple(all_partitions))
        return owners[bisect.bisect(places, _hash(key)) % len(owners)]

    def _ring(self, partitions: tuple[int, ...]) -> tuple[list[int], list[int]]:
        if partitions not in self._rings:
            points = sorted(
                (_hash(b"%d/%d" % (partition, point)), partition) for partition in partitions for point in range(POINTS)
            )
            self._rings[partitions] = [place for place, _ in points], [owner for _, owner in points]
        return self._rings[partitions]


@dataclass(frozen=True, slots=True)
class SlotTable:
    """Which partition each slot goes to. A key's slot never changes; the table changes one slot at a time."""

    version: int
    partition_of: tuple[int, ...]

    @classmethod
    def even(cls, partitions: int) -> SlotTable:
        return cls(1, tuple(slot % partitions for slot in range(SLOTS)))

    def moves_to(self, partitions: int) -> dict[int, int]:
        """The fewest moves after which so many partitions have even shares: slot → new partition."""
        most = [SLOTS // partitions + (number < SLOTS % partitions) for number in range(partitions)]
        held = [0] * partitions
        homeless = []
        for slot, partition in enumerate(self.partition_of):
            if partition < partitions and held[partition] < most[partition]:
                held[partition] += 1
            else:
                homeless.append(slot)
        free = [partition for partition in range(partitions) for _ in range(most[partition] - held[partition])]
        return dict(zip(homeless, free, strict=True))

    def moved(self, slot: int, partition: int) -> SlotTable:
        changed = (*self.partition_of[:slot], partition, *self.partition_of[slot + 1 :])
        return replace(self, version=self.version + 1, partition_of=changed)


class HashSlots:
    """By the table, whatever the broker says of how many partitions there are."""

    def __init__(self, table: SlotTable) -> None:
        self.table = table

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        assert key is not None
        return self.table.partition_of[slot_of(key)]


def slot_of(key: bytes) -> int:
    return _hash(key) % SLOTS


def _hash(content: bytes) -> int:
    """Of 32 bits, well mixed; the same on every machine."""
    return ((zlib.crc32(content) ^ 0xA5A5A5A5) * 0x9E3779B1 & 0xFFFFFFFF) ^ int(murmur2(content) & 0xFFFFFFFF)
