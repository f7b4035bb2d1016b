"""Codec and store: Kafka's `leader-epoch-checkpoint` file: version, count, then one "epoch offset" per line.

Own rule: the file is a hint. A missing or damaged one is rebuilt from the batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from mqcore.disk.port import Disk
from mqcore.log.epochs import EpochStart

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
_VERSION: Final = "0"


def encode_epochs(starts: Iterable[EpochStart]) -> bytes:
    lines = [f"{epoch} {offset}" for epoch, offset in starts]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_epochs(content: bytes) -> list[EpochStart] | None:
    """None if the content is damaged."""
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


def read_epochs(disk: Disk, directory: str) -> list[EpochStart] | None:
    """None if the file is missing or damaged."""
    try:
        return decode_epochs(disk.read_whole(f"{directory}/{EPOCHS_FILE}"))
    except FileNotFoundError:
        return None


class EpochsFile:
    """The epochs file of one open log. `saved` is its content, if that is certain."""

    def __init__(self, disk: Disk, directory: str, saved: tuple[EpochStart, ...] | None) -> None:
        self._disk = disk
        self._path = f"{directory}/{EPOCHS_FILE}"
        self._saved = saved

    def contains(self, starts: tuple[EpochStart, ...]) -> bool:
        return starts == self._saved

    def save(self, starts: tuple[EpochStart, ...]) -> None:
        """Write atomically and durably, if something has changed."""
        if starts != self._saved:
            self._disk.replace(self._path, encode_epochs(starts))
            self._saved = starts
