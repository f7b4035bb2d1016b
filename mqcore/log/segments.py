"""Store: the segments of one log in order, and what of their names and files is not durable yet.

Own rule: names go away one segment at a time, the folder synced after each, so that no crash can leave a hole between
two segments. Removed files are first called `.deleted` and unlinked later; readers may hold them open longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

from mqcore.disk.port import Disk, File
from mqcore.log.segment import LOG, SUFFIXES, Segment, segment_name

DELETED: Final = ".deleted"


class Segments:
    """Never empty once a log is open: the last one is active."""

    def __init__(self, disk: Disk, directory: str, items: Iterable[Segment], *, clean: bool) -> None:
        self._disk = disk
        self._directory = directory
        self.items = list(items)
        self.bases = [segment.base_offset for segment in self.items]
        self._bytes_before_active = sum(segment.size for segment in self.items[:-1])
        self._unsynced: deque[File] = deque()  # indexes and snapshots
        self._names_changed = self._names_synced = 0
        self._is_new_to_parent = not clean  # even the folder's own name may not be durable
        if not clean:
            self._names_changed += 1
        self._deleted: deque[tuple[int, list[str]]] = deque()  # due at, paths

    @property
    def active(self) -> Segment:
        return self.items[-1]

    @property
    def size_bytes(self) -> int:
        return self._bytes_before_active + self.items[-1].size

    def index_of(self, offset: int) -> int:
        """Which segment holds `offset`: the last one that begins at or below it; -1 below the first."""
        return bisect_right(self.bases, offset) - 1

    def end_of(self, index: int, log_end: int) -> int:
        """Where a segment ends: its successor's base, for a log has no holes between segments."""
        return self.bases[index + 1] if index + 1 < len(self.bases) else log_end

    def add(self, segment: Segment) -> None:
        if self.items:
            self._bytes_before_active += self.items[-1].size
        self.items.append(segment)
        self.bases.append(segment.base_offset)
        self._names_changed += 1

    # --- removing ----------------------------------------------------------------------------------------------------

    def drop_first(self, due_ms: int) -> str:
        """Take the oldest segment away; the name of its file, for the log line."""
        segment = self.items[0]
        self._forget(segment, due_ms)
        del self.items[0], self.bases[0]
        if self.items:
            self._bytes_before_active -= segment.size
        return segment_name(segment.base_offset)

    def drop_last(self, due_ms: int) -> None:
        segment = self.items[-1]
        self._forget(segment, due_ms)
        del self.items[-1], self.bases[-1]
        if self.items:
            self._bytes_before_active -= self.items[-1].size

    def replaced(self, first: int, last: int, segment: Segment) -> None:
        """Compaction put one segment in the place of items[first:last]; the files are changed already."""
        self.items[first:last] = [segment]
        self.bases[first:last] = [segment.base_offset]
        self._bytes_before_active = sum(item.size for item in self.items[:-1])

    def _forget(self, segment: Segment, due_ms: int) -> None:
        self.sync_names()  # first what stays: an older name must not go before a newer one is sure
        self.retire([segment.base_offset], due_ms)
        self._disk.sync_directory(self._directory)

    def retire(self, bases: Iterable[int], due_ms: int) -> None:
        """Rename the files of segments away, to be unlinked at `due_ms`. The caller syncs the folder."""
        paths = []
        for base in bases:
            for suffix in SUFFIXES:
                path = f"{self._directory}/{segment_name(base, suffix)}"
                if suffix == LOG or self._disk.exists(path):
                    self._disk.rename(path, path + DELETED)
                    paths.append(path + DELETED)
        self._deleted.append((due_ms, paths))

    def reap(self, now_ms: int) -> None:
        """Unlink what is due."""
        while self._deleted and self._deleted[0][0] <= now_ms:
            for path in self._deleted[0][1]:
                self._disk.remove(path)
            self._deleted.popleft()

    def release_idle(self, flushed_offset: int) -> None:
        """Give back the files and indexes of sealed segments; the next reader opens them again."""
        for index, segment in enumerate(self.items[:-1]):
            if self.bases[index + 1] <= flushed_offset:
                segment.release()

    # --- durability --------------------------------------------------------------------------------------------------

    @property
    def names_dirty(self) -> bool:
        return self._names_changed != self._names_synced

    def sync_later(self, files: Iterable[File]) -> None:
        self._unsynced.extend(files)
        self._names_changed += 1

    def sync(self, start: int, end: int) -> None:
        """Make everything in [start, end) durable. Runs beside appends and rolls: it works on what it sees first."""
        items = list(self.items)
        for segment, successor in zip(items, [*items[1:], None], strict=True):
            if segment.base_offset < end and (successor is None or successor.base_offset > start):
                try:
                    segment.file.sync()
                except FileNotFoundError:
                    if segment in self.items:  # else it was removed meanwhile
                        raise
        while self._unsynced:
            self._unsynced.popleft().sync()
        if self._is_new_to_parent:
            self._disk.sync_directory(self._directory.rpartition("/")[0])
            self._is_new_to_parent = False
        self.sync_names()

    def sync_names(self) -> None:
        """Only the names: no hole among the segments, whatever becomes of their content."""
        names_changed = self._names_changed
        if names_changed != self._names_synced:
            self._disk.sync_directory(self._directory)
            self._names_synced = names_changed

    def close(self) -> None:
        for segment in self.items:
            segment.close()
