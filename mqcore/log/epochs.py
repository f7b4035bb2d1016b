"""Machine: where each leader epoch began in the log, and the text file that remembers it.

Own rule (KIP-101, KIP-279): epochs and start offsets both rise strictly; an epoch ends where the next one begins.
The file is Kafka's `leader-epoch-checkpoint`: version, count, then one "epoch offset" a line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, NamedTuple

UNKNOWN: Final = -1
_VERSION: Final = "0"


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochCache:
    """The epochs of one log, oldest first. `log_end` is asked for the end of the newest one."""

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
        """The first batch of `epoch` is, or will be, at `offset`. A known epoch changes nothing."""
        if epoch <= self.last_epoch or epoch < 0:
            return
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()  # an epoch in which nothing was written
        self._starts.append(EpochStart(epoch, offset))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch ≤ `epoch`, where it ended): Kafka's answer to OffsetForLeaderEpoch.

        The newest epoch ends at the log end; an epoch above all known ones is unknown (-1, -1); one below all known
        ones is answered with itself and the start of the first.
        """
        if epoch == UNKNOWN or epoch > self.last_epoch:
            return UNKNOWN, UNKNOWN
        if epoch == self.last_epoch:
            return epoch, self._log_end()
        above = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        if above == 0:
            return epoch, self._starts[0].start_offset
        return self._starts[above - 1].epoch, self._starts[above].start_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        above = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[above - 1].epoch if above else UNKNOWN

    def truncate_end(self, offset: int) -> None:
        """Forget what began at or above `offset`: the log was cut there."""
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()

    def truncate_start(self, offset: int) -> None:
        """Forget what ended at or below `offset`; the epoch that holds it now begins there."""
        above = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        if above:
            self._starts[:above] = [EpochStart(self._starts[above - 1].epoch, offset)]

    def clear(self) -> None:
        self._starts.clear()


def encode_epochs(starts: Iterable[EpochStart]) -> bytes:
    lines = [f"{epoch} {offset}" for epoch, offset in starts]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_epochs(content: bytes) -> list[EpochStart] | None:
    """The epochs, or None if the file is damaged: it is a hint and can be rebuilt from the batches."""
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        starts = [EpochStart(*map(int, line.split(" "))) for line in lines]
        if version != _VERSION or len(starts) != int(count):
            return None
    except (ValueError, TypeError):
        return None
    rising = all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(starts))
    valid = all(start.epoch >= 0 and start.start_offset >= 0 for start in starts)
    return starts if rising and valid else None
