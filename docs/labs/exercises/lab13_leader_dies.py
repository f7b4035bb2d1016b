"""Lab 13 · the leader dies: three small tasks about replication."""

from __future__ import annotations

from collections.abc import Collection, Mapping

LEADER_ALONE, ALL_IN_SYNC = 1, -1


def high_watermark(log_ends: Mapping[int, int], in_sync: Collection[int]) -> int:
    """Task 1: everything below it is on all in-sync replicas. `log_ends`: broker → the end of its log."""
    raise NotImplementedError("task 13.1")


def is_acknowledged(end: int, acks: int, log_ends: Mapping[int, int], in_sync: Collection[int], leader: int) -> bool:
    """Task 2: whether the leader may acknowledge records up to `end` (exclusive), with acks=1 or acks=all (−1)."""
    raise NotImplementedError("task 13.2")


def elect(replicas: Collection[int], in_sync: Collection[int], alive: Collection[int]) -> int | None:
    """Task 3: the next leader, or None if electing any replica could lose acknowledged records. `replicas` are in the
    order of preference."""
    raise NotImplementedError("task 13.3")
