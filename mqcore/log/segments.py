"""Store: the segments of one log in order, and what of their names and files is not durable yet.

Own rule: names go away one segment at a time, the folder synced after each, so that no crash can leave a hole between
two segments. Removed files are first called `.deleted` and unlinked later; readers may hold them open longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

from mqcore.disk.port import Disk
from mqcore.log.segment import INDEX, LOG, TIME_INDEX, Segment, segment_name

DELETED: Final = ".deleted"

_MOST_BYTES: Final = 2**31 - 1  # positions in an index have 32 bits
_SYNC_AT_FILES: Final = 12  # of four rolls: two indexes and a snapshot each
_MOST_UNSYNCED_FILES: Final = 768  # of 256 rolls, whose logs are held open until they are durable
_MOST_OPEN: Final = 16


class Segments:
    """Never empty once a log is open: the last one is active."""

    def __init__(self, disk: Disk, directory: str, items: Iterable[Segment], *, clean: bool) -> None:
        self._disk = disk
        self._directory = directory
        self.items = list(items)
        self.bases = [segment.base_offset for segment in self.items]
        self._bytes_before_active = sum(segment.size for segment in self.items[:-1])
        self._unsynced: deque[str] = deque()  # paths of indexes and snapshots
        self._names_changed = self._names_synced = 0
        self._is_new_to_parent = not clean  # even the folder's own name may not be durable
        if not clean:
            self._names_changed += 1
        self._deleted: deque[tuple[int, list[str]]] = deque()  # due at, paths
        self._open: dict[Segment, None] = {}  # sealed segments whose file may be open, the least recently used first
        self.synced_to = -1

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
            self.keep_open(self.items[-1])
        self.items.append(segment)
        self.bases.append(segment.base_offset)
        self._names_changed += 1

    # --- removing ----------------------------------------------------------------------------------------------------

    def drop_first(self, due_ms: int) -> str:
        """Take the oldest segment away; the name of its file, for the log line."""
        base_offset = self.items[0].base_offset
        self._drop(0, due_ms)
        return segment_name(base_offset)

    def drop_last(self, due_ms: int) -> None:
        self._drop(len(self.items) - 1, due_ms)

    def begin(self, segment: Segment, due_ms: int) -> None:
        """Go on with a new active segment. An empty one before it would be a hole, and is dropped."""
        is_hole = self.active.size == 0
        self.add(segment)
        if is_hole:
            self._drop(len(self.items) - 2, due_ms)

    def replaced(self, first: int, last: int, segment: Segment) -> None:
        """Compaction put one segment in the place of items[first:last]; the files are changed already."""
        for gone in self.items[first:last]:
            self._open.pop(gone, None)
        self.items[first:last] = [segment]
        self.bases[first:last] = [segment.base_offset]
        self._bytes_before_active = sum(item.size for item in self.items[:-1])

    def _drop(self, at: int, due_ms: int) -> None:
        """Rename a segment's files away, to be unlinked at `due_ms`. After an OSError the segment is either there or
        not, in memory as on disk; names that are not durable yet are synced before the next one changes."""
        self.sync_names()  # first what stays: an older name must not go before a newer one is sure
        segment, bytes_before_active = self.items[at], self._bytes_before_active
        del self.items[at], self.bases[at]  # a sync on another thread must not look for the file any more
        if self.items:
            self._bytes_before_active -= segment.size if at < len(self.items) else self.items[-1].size
        try:
            self._disk.rename(segment.path(LOG), segment.path(LOG) + DELETED)
        except OSError:
            self.items.insert(at, segment)
            self.bases.insert(at, segment.base_offset)
            self._bytes_before_active = bytes_before_active
            raise
        self._open.pop(segment, None)
        self._names_changed += 1
        renamed = [segment.path(LOG) + DELETED]
        self._deleted.append((due_ms, renamed))
        for suffix in (INDEX, TIME_INDEX):
            path = segment.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        self.sync_names()

    def reap(self, now_ms: int) -> None:
        """Unlink what is due. A file that cannot be removed does not keep the others; it is tried again."""
        kept: list[str] = []
        fault: OSError | None = None
        while self._deleted and self._deleted[0][0] <= now_ms:
            for path in self._deleted.popleft()[1]:
                try:
                    self._disk.remove(path)
                except OSError as error:
                    kept.append(path)
                    fault = error
        if fault is not None:
            self._deleted.appendleft((now_ms, kept))
            raise fault

    def release_idle(self, flushed_offset: int) -> None:
        """Give back the files and indexes of sealed segments; the next reader opens them again."""
        for index, segment in enumerate(self.items[:-1]):
            if self.bases[index + 1] <= flushed_offset:
                segment.release()
                self._open.pop(segment, None)

    # --- durability --------------------------------------------------------------------------------------------------

    @property
    def names_dirty(self) -> bool:
        return self._names_changed != self._names_synced

    @property
    def wants_sync(self) -> bool:
        """Sealed segments are held open for the next sync, which should not wait for its regular time."""
        return len(self._unsynced) >= _SYNC_AT_FILES

    def may_grow(self, more_bytes: int) -> bool:
        """Whether the active segment goes on past its limit, because too many files wait for a sync already."""
        return len(self._unsynced) >= _MOST_UNSYNCED_FILES and self.has_room(more_bytes)

    def has_room(self, more_bytes: int) -> bool:
        """Whether an index could still point at the end of the active segment."""
        return self.active.size + more_bytes <= _MOST_BYTES

    def keep_open(self, segment: Segment) -> None:
        """A sealed segment has its file open. Of these, and only if they are durable, the oldest give theirs back."""
        self._open.pop(segment, None)
        self._open[segment] = None
        if len(self._open) > _MOST_OPEN:
            for oldest in list(self._open)[:-_MOST_OPEN]:
                index = self.index_of(oldest.base_offset)
                if index + 1 >= len(self.bases) or self.bases[index + 1] <= self.synced_to:
                    oldest.release()
                    del self._open[oldest]

    def sync_later(self, paths: Iterable[str]) -> None:
        self._unsynced.extend(paths)
        self._names_changed += 1

    def sync(self, start: int, end: int) -> None:
        """Make everything in [start, end) durable. Runs beside appends and rolls: it works on what it sees first."""
        items = list(self.items)
        for segment, successor in zip(items, [*items[1:], None], strict=True):
            if segment.base_offset < end and (successor is None or successor.base_offset > start):
                try:
                    segment.sync()
                except FileNotFoundError:
                    if segment in self.items:  # else it was removed meanwhile
                        raise
        while self._unsynced:
            self._sync_file(self._unsynced[0])
            self._unsynced.popleft()
        if self._is_new_to_parent:
            self._disk.sync_directory(self._directory.rpartition("/")[0])
            self._is_new_to_parent = False
        self.sync_names()
        self.synced_to = max(self.synced_to, end)

    def _sync_file(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return  # its segment was removed meanwhile
        try:
            file.sync()
        finally:
            file.close()

    def sync_names(self) -> None:
        """Only the names: no hole among the segments, whatever becomes of their content."""
        names_changed = self._names_changed
        if names_changed != self._names_synced:
            self._disk.sync_directory(self._directory)
            self._names_synced = names_changed

    def close(self) -> None:
        for segment in self.items:
            segment.close()
