"""Lab 14 · truncation by watermark: three small tasks about leader epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN = -1


class EpochStart(NamedTuple):
    """The leader epoch and the offset of its first record. A log's list of them is sorted."""

    epoch: int
    offset: int


def end_of_epoch(starts: Sequence[EpochStart], log_end: int, epoch: int) -> tuple[int, int]:
    """Task 1: (the largest known epoch ≤ `epoch`, where it ended), as OffsetForLeaderEpoch answers. The newest epoch
    ends at the log's end; one that is newer than all known ones is (−1, −1). For one older than all known ones: itself,
    and where the first known one starts."""
    raise NotImplementedError("task 14.1")


def has_diverged(starts: Sequence[EpochStart], log_end: int, fetch_offset: int, last_epoch: int) -> bool:
    """Task 2: a follower fetches at `fetch_offset`, and its last record is of `last_epoch`. Whether its log cannot be a
    prefix of the leader's, whose epochs these are."""
    raise NotImplementedError("task 14.2")


def cut_at(own_starts: Sequence[EpochStart], own_end: int, epoch: int, end: int) -> int:
    """Task 3: the leader has answered "my `epoch` ends at `end`". Where does the follower cut? (KIP-279: its own log
    may have left that epoch earlier.)"""
    raise NotImplementedError("task 14.3")
