"""Store: what a node remembers about a log that it had to cut: up to where acknowledged records may be lost.

Own rule: a torn write and a damaged disk look alike when valid batches follow the invalid one. A torn write was never
acknowledged, but damage may be anywhere. So the node trusts the log again only once it has passed its former end, and
it remembers that end durably before it cuts.
"""

from __future__ import annotations

from typing import Final

from mqcore.disk.port import Disk
from mqcore.identity import TopicPartition
from mqcore.log.scan import find_valid_batch
from mqcore.log.validity import find_first_invalid

SUSPECT_FILE: Final = "suspect-to"


class Suspicion:
    """`end` is the former end of the log, 0 if the log is trusted."""

    def __init__(self, disk: Disk, folder: TopicPartition) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{SUSPECT_FILE}"
        self.end = self._read()

    def _read(self) -> int:
        try:
            return int(self._disk.read_whole(self._path))
        except FileNotFoundError:
            return 0

    def cut(self) -> None:
        """Cut the log at its first invalid batch. What is cut stays beside it, in files named `.cut`."""
        from mqcore.log.doctor import cut_partition  # here, because a healthy broker starts faster without them
        from mqcore.log.examination import open_segments

        items = open_segments(self._disk, str(self._folder))
        invalid = find_first_invalid(items).first_invalid
        assert invalid is not None, "recovery has found an invalid batch"
        position = invalid.position
        for segment in items[invalid.segment_index :]:
            while (found := find_valid_batch(segment, position, invalid.next_offset)) is not None:
                header = segment.header_at(found)
                self.end = max(self.end, header.next_offset)
                position = found + header.size
            position = 0
        self._disk.replace(self._path, f"{self.end}\n".encode())
        base = items[invalid.segment_index].base_offset
        cut_partition(self._disk, self._folder, base, invalid.position, invalid.next_offset)

    def end_at(self, durable: int) -> None:
        """Trust the log again if everything below its former end is back."""
        if self.end and durable >= self.end:
            self._disk.remove(self._path)
            self._disk.sync_directory(str(self._folder))
            self.end = 0
