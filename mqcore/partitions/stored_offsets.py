"""Store: what the data folder remembers of its partitions by name, in three checkpoint files.

Own rule: a name may belong to another topic later. Before a new partition keeps anything, the entries that an older one
of its name left are gone from the disk: its log start would cut off the new records at the next start, its recovery
point would pass them as durable, and its cleaner offset would pass them as clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mqcore.disk.port import Disk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, CheckpointFile, Offsets

FILES: Final = (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)


class StoredOffsets:
    def __init__(self, disk: Disk) -> None:
        self._files = {file: CheckpointFile(disk, file) for file in FILES}
        self._offsets = {file: stored.read() for file, stored in self._files.items()}  # what the files hold …
        self._stale: set[str] = set()  # … but for dropped partitions in these

    def of(self, file: str, name: TopicPartition) -> int:
        return self._offsets[file].get(name, 0)

    def write(self, file: str, offsets: Offsets) -> None:
        """Durably replace the content of one file."""
        self._offsets[file] = dict(offsets)
        self._stale.add(file)  # until the write has succeeded
        self._files[file].write(offsets)
        self._stale.discard(file)

    def drop(self, name: TopicPartition, files: Iterable[str] = FILES) -> None:
        """The partition was deleted. On disk its entries stay until `write_dropped`."""
        for file in files:
            if self._offsets[file].pop(name, None) is not None:
                self._stale.add(file)

    def forget_above(self, name: TopicPartition, end: int) -> None:
        """The log was cut at `end`: what will be written there is neither durable nor compacted yet."""
        self.drop(name, [file for file in (RECOVERY_POINTS, CLEANER_OFFSETS) if self.of(file, name) > end])
        self.write_dropped()

    def forget(self, name: TopicPartition) -> None:
        """Durably drop a partition."""
        self.drop(name)
        self.write_dropped()

    def write_dropped(self) -> None:
        """Make durable that dropped partitions are gone."""
        for file in sorted(self._stale):
            self.write(file, self._offsets[file])
