"""Machine: where each leader epoch began in the log.

Own rule (KIP-101, KIP-279): epochs and start offsets both rise strictly, and an epoch ends where the next one begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

UNKNOWN: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class EpochCache:
    """The epochs of one log, oldest first. `log_end` returns the end of the newest one."""

    def __init__(self, log_end: Callable[[], int], starts: Iterable[EpochStart] = ()) -> None:
        self._log_end = log_end
        self._starts = list(starts)

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)

    @property
    def last_epoch(self) -> int:
        return self._starts[-1].epoch if self._starts else UNKNOWN

    def begin(self, epoch: int, offset: int) -> None:
        """The first batch of `epoch` is, or will be, at `offset`. Ignores an epoch that is not newer than the last."""
        if epoch <= self.last_epoch or epoch < 0:
            return
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()  # nothing was written in that epoch
        self._starts.append(EpochStart(epoch, offset))

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest known epoch ≤ `epoch`, and where it ended: Kafka's answer to OffsetForLeaderEpoch.

        The newest epoch ends at the log end. An epoch above all known ones is unknown (-1, -1). For one below all
        known ones the answer is that epoch itself and the start of the first known epoch.
        """
        if epoch == UNKNOWN or epoch > self.last_epoch:
            return EpochEnd(UNKNOWN, UNKNOWN)
        if epoch == self.last_epoch:
            return EpochEnd(epoch, self._log_end())
        above = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        if above == 0:
            return EpochEnd(epoch, self._starts[0].start_offset)
        return EpochEnd(self._starts[above - 1].epoch, self._starts[above].start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        above = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[above - 1].epoch if above else UNKNOWN

    def truncate_end(self, offset: int) -> None:
        """Remove epochs that began at or above `offset`, because the log was cut there."""
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()

    def truncate_start(self, offset: int) -> None:
        """Remove epochs that ended at or below `offset`. The epoch that contains `offset` now begins there."""
        above = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        if above:
            self._starts[:above] = [EpochStart(self._starts[above - 1].epoch, offset)]

    def clear(self) -> None:
        self._starts.clear()
