"""Store: the segments of one log in order, and which of their names and files are not durable yet.

Own rule: names disappear one segment at a time, and the folder is synced after each, so that no crash can leave a gap
between two segments. Removed files are first renamed to `.deleted` and unlinked later; readers may keep them open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

from mqcore.disk.port import Disk
from mqcore.log.retention import RetentionCheck
from mqcore.log.segment import Segment
from mqcore.log.segment_files import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name

_SEGMENT_BYTES_MAX: Final = 2**31 - 1  # positions in an index have 32 bits
_SYNC_AT_FILES: Final = 12  # four rolls, each with two indexes and a snapshot
_UNSYNCED_FILES_MAX: Final = 768  # 256 rolls; their log files stay open until they are durable
_OPEN_FILES_MAX: Final = 16


class Segments:
    """While a log is open it has at least one segment. The last one is active."""

    def __init__(self, disk: Disk, directory: str, items: Iterable[Segment], *, clean: bool) -> None:
        self._disk = disk
        self._directory = directory
        self.items = list(items)
        self.bases = [segment.base_offset for segment in self.items]
        self._bytes_before_active = sum(segment.size for segment in self.items[:-1])
        self._unsynced: deque[str] = deque()  # the paths of indexes and snapshots
        self._names_changed = self._names_synced = 0
        self._is_folder_unsynced = not clean  # the name of the log's folder may not be durable
        if not clean:
            self._names_changed += 1
        self._deleted: deque[tuple[int, list[str]]] = deque()  # (when to unlink, paths)
        self._open: dict[Segment, None] = {}  # sealed segments with an open file, least recently used first
        self.synced_to = -1

    @property
    def active(self) -> Segment:
        return self.items[-1]

    @property
    def size_bytes(self) -> int:
        return self._bytes_before_active + self.items[-1].size

    def index_of(self, offset: int) -> int:
        """The index of the segment that contains `offset`, or -1 if it is below the first segment."""
        return bisect_right(self.bases, offset) - 1

    def end_of(self, index: int, log_end: int) -> int:
        """Where a segment ends: at its successor's base, because a log has no gaps between segments."""
        return self.bases[index + 1] if index + 1 < len(self.bases) else log_end

    def add(self, segment: Segment) -> None:
        if self.items:
            self._bytes_before_active += self.items[-1].size
            self.note_open(self.items[-1])
        self.items.append(segment)
        self.bases.append(segment.base_offset)
        self._names_changed += 1

    def count_expired(self, check: RetentionCheck, log_end: int) -> int:
        """How many of the oldest segments have expired, perhaps including the active one."""
        for index, segment in enumerate(self.items):
            end = self.end_of(index, log_end)
            if not check.is_removable(segment.size, end):
                return index
            has_expired = check.is_deleted_or_surplus(segment.size, end) or (
                check.needs_timestamp and check.is_too_old(segment.age_timestamp)  # read from disk only if it matters
            )
            if not has_expired:
                return index
            check.count_removed(segment.size)
        return len(self.items)

    # --- removing ----------------------------------------------------------------------------------------------------

    def drop_first(self, due_ms: int) -> str:
        """Remove the oldest segment. Returns the name of its file, for the log line."""
        base_offset = self.items[0].base_offset
        self._drop(0, due_ms)
        return segment_name(base_offset)

    def drop_last(self, due_ms: int) -> None:
        self._drop(len(self.items) - 1, due_ms)

    def begin(self, segment: Segment, due_ms: int) -> None:
        """Make a new segment the active one. If the previous one is empty it is dropped, because it would be a gap."""
        is_empty = self.active.size == 0
        self.add(segment)
        if is_empty:
            self._drop(len(self.items) - 2, due_ms)

    def replace(self, first: int, last: int, segment: Segment) -> None:
        """Replace items[first:last] with one segment, in memory only. Compaction changes the files."""
        for gone in self.items[first:last]:
            self._open.pop(gone, None)
        self.items[first:last] = [segment]
        self.bases[first:last] = [segment.base_offset]
        self._bytes_before_active = sum(item.size for item in self.items[:-1])

    def _drop(self, at: int, due_ms: int) -> None:
        """Rename a segment's files, to be unlinked at `due_ms`. After an OSError, memory and disk still agree on
        whether the segment exists.

        The order matters. Names that stay are synced first, because an old segment must not disappear before its
        successor is durable. Memory changes before the disk, so that a sync on another thread does not look for the
        file. The log goes before its indexes: an index without a log is removed at the next start."""
        self.sync_names()
        segment, bytes_before_active = self.items[at], self._bytes_before_active
        del self.items[at], self.bases[at]
        if self.items:
            self._bytes_before_active -= segment.size if at < len(self.items) else self.items[-1].size
        try:
            self._disk.rename(segment.path(LOG_SUFFIX), segment.path(LOG_SUFFIX) + DELETED_SUFFIX)
        except OSError:
            self.items.insert(at, segment)
            self.bases.insert(at, segment.base_offset)
            self._bytes_before_active = bytes_before_active
            raise
        self._open.pop(segment, None)
        self._names_changed += 1
        renamed = [segment.path(LOG_SUFFIX) + DELETED_SUFFIX]
        self._deleted.append((due_ms, renamed))
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = segment.path(suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        self.sync_names()

    def unlink_due(self, now_ms: int) -> None:
        """Unlink files that are due. A file that cannot be unlinked does not block the others; it is tried again."""
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

    def release_sealed(self, flushed_offset: int) -> None:
        """Release the files and indexes of durable sealed segments. The next reader opens them again."""
        for index, segment in enumerate(self.items[:-1]):
            if self.bases[index + 1] <= flushed_offset:
                segment.release()
                self._open.pop(segment, None)

    # --- durability --------------------------------------------------------------------------------------------------

    @property
    def has_unsynced_names(self) -> bool:
        return self._names_changed != self._names_synced

    @property
    def should_sync_soon(self) -> bool:
        """Sealed segments stay open until they are synced, so a sync should not wait for its regular time."""
        return len(self._unsynced) >= _SYNC_AT_FILES

    def may_exceed_limit(self, more_bytes: int) -> bool:
        """Whether the active segment may exceed its size limit, because too many files already wait for a sync."""
        return len(self._unsynced) >= _UNSYNCED_FILES_MAX and self.has_room(more_bytes)

    def has_room(self, more_bytes: int) -> bool:
        """Whether an index could still point at the end of the active segment."""
        return self.active.size + more_bytes <= _SEGMENT_BYTES_MAX

    def note_open(self, segment: Segment) -> None:
        """Note that a sealed segment has its file open. Above a limit, release the least recently used durable ones."""
        self._open.pop(segment, None)
        self._open[segment] = None
        if len(self._open) > _OPEN_FILES_MAX:
            for oldest in list(self._open)[:-_OPEN_FILES_MAX]:
                index = self.index_of(oldest.base_offset)
                if index + 1 >= len(self.bases) or self.bases[index + 1] <= self.synced_to:
                    oldest.release()
                    del self._open[oldest]

    def add_unsynced(self, paths: Iterable[str]) -> None:
        self._unsynced.extend(paths)
        self._names_changed += 1

    def sync(self, start: int, end: int) -> None:
        """Make everything in [start, end) durable. Copies the list, because rolls may run on another thread."""
        items = list(self.items)
        for segment, successor in zip(items, [*items[1:], None], strict=True):
            if segment.base_offset < end and (successor is None or successor.base_offset > start):
                try:
                    segment.sync()
                except FileNotFoundError:
                    if segment in self.items:  # otherwise it was removed during the sync
                        raise
        while self._unsynced:
            self._sync_file(self._unsynced[0])
            self._unsynced.popleft()
        if self._is_folder_unsynced:
            self._disk.sync_directory(self._directory.rpartition("/")[0])
            self._is_folder_unsynced = False
        self.sync_names()
        self.synced_to = max(self.synced_to, end)

    def _sync_file(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return  # its segment was removed during the sync
        try:
            file.sync()
        finally:
            file.close()

    def sync_names(self) -> None:
        """Sync the folder only: then no segment is missing between others, even if content is lost."""
        names_changed = self._names_changed
        if names_changed != self._names_synced:
            self._disk.sync_directory(self._directory)
            self._names_synced = names_changed

    def close(self) -> None:
        for segment in self.items:
            segment.close()
