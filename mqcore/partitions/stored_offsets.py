"""Store: the offsets that the data folder stores for each partition name, in four checkpoint files.

Own rule: a topic may be deleted and another one created under its name. Before the new partition stores records, the
old entries must be gone from the disk. Otherwise, at the next start, the old log start would hide new records, and the
other old offsets would claim that they are durable, compacted and committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mqcore.disk.port import Disk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointFile,
    Offsets,
)

FILES: Final = (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS, HIGH_WATERMARKS)


class StoredOffsets:
    def __init__(self, disk: Disk) -> None:
        self._files = {file: CheckpointFile(disk, file) for file in FILES}
        self._offsets = {file: stored.read() for file, stored in self._files.items()}
        self._outdated_files: set[str] = set()  # on disk, these still have entries that were dropped in memory

    def get(self, file: str, name: TopicPartition) -> int:
        return self._offsets[file].get(name, 0)

    def has_entries(self, file: str) -> bool:
        return bool(self._offsets[file])

    def write(self, file: str, offsets: Offsets) -> None:
        """Durably replace the content of one file."""
        self._offsets[file] = dict(offsets)
        self._outdated_files.add(file)  # until the write has succeeded
        self._files[file].write(offsets)
        self._outdated_files.discard(file)

    def drop(self, name: TopicPartition, files: Iterable[str] = FILES) -> None:
        """Drop the partition's entries in memory. `write_dropped` makes that durable."""
        for file in files:
            if self._offsets[file].pop(name, None) is not None:
                self._outdated_files.add(file)

    def remove(self, name: TopicPartition) -> None:
        """Durably remove the partition's entries."""
        self.drop(name)
        self.write_dropped()

    def remove_above(self, name: TopicPartition, end: int) -> None:
        """Durably remove offsets above `end`, because the log is cut there: they say nothing about new batches."""
        self.drop(name, [file for file in FILES if self.get(file, name) > end])
        self.write_dropped()

    def write_dropped(self) -> None:
        for file in sorted(self._outdated_files):
            self.write(file, self._offsets[file])
