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
    if epoch < 0 or not starts or epoch > starts[-1].epoch:
        return UNKNOWN, UNKNOWN
    known = [start for start in starts if start.epoch <= epoch]
    above = [start.offset for start in starts if start.epoch > epoch]
    end = above[0] if above else log_end
    return (known[-1].epoch if known else epoch), end


def has_diverged(starts: Sequence[EpochStart], log_end: int, fetch_offset: int, last_epoch: int) -> bool:
    """Task 2: a follower fetches at `fetch_offset`, and its last record is of `last_epoch`. Whether its log cannot be a
    prefix of the leader's, whose epochs these are."""
    epoch, end = end_of_epoch(starts, log_end, last_epoch)
    return epoch != last_epoch or end < fetch_offset


def cut_at(own_starts: Sequence[EpochStart], own_end: int, epoch: int, end: int) -> int:
    """Task 3: the leader has answered "my `epoch` ends at `end`". Where does the follower cut? (KIP-279: its own log
    may have left that epoch earlier.)"""
    return min(end_of_epoch(own_starts, own_end, epoch)[1], end)
