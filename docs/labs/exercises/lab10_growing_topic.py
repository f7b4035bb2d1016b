"""Lab 10 · the topic grows: three small tasks about partitioners."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka.partitioner import murmur2


def modulo_partition(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def moved_share(keys: Collection[bytes], before: int, after: int) -> float:
    """Task 1: the share of the keys whose partition changes if a topic grows, with `modulo_partition`."""
    raise NotImplementedError("task 10.1")


def moves_for(partition_of: Sequence[int], partitions: int) -> dict[int, int]:
    """Task 2: slot → new partition, so that `partitions` partitions have even shares (they differ by one slot at most)
    and as few slots as possible move. Partitions are only added."""
    raise NotImplementedError("task 10.2")


def may_switch(marked: int, producer_versions: Collection[int], group_offset: int, old_end: int) -> bool:
    """Task 3: whether a moving slot may point to its new partition: every producer has seen the map of version
    `marked`, in which the slot takes nothing, and the group has read everything that the old partition contained
    then."""
    raise NotImplementedError("task 10.3")
