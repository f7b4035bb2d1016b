"""Store: the producer snapshots of a log, each named after the offset at which it was taken.

Own rule: a snapshot is a hint, because the headers of all batches contain the same information. If one is damaged, an
older one is used. The observer decides the content; this module decides only the names and how many are kept.
"""

from __future__ import annotations

from typing import Final, Protocol

from mqcore.disk.port import Disk
from mqcore.log.segment_files import SNAPSHOT_SUFFIX, segment_bases, segment_name
from mqcore.wire.batches import BatchHeader

SNAPSHOTS_KEPT: Final = 3


class BatchObserver(Protocol):
    """The state of producers, which is derived from the batches of the log."""

    def observe(self, header: BatchHeader) -> None:
        """Called for every batch in order, both on append and on replay."""
        ...

    def snapshot(self) -> bytes: ...

    def restore(self, snapshot: bytes) -> bool:
        """Replace the state with that of a snapshot. False, without a change, if the snapshot is damaged."""
        ...

    def clear(self) -> None: ...


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Offsets of all snapshots, oldest first."""
    return segment_bases(disk.names(directory), SNAPSHOT_SUFFIX)


def write_snapshot(disk: Disk, directory: str, offset: int, observer: BatchObserver, needed_from: int = 0) -> str:
    """Write the state before `offset`, not yet durably. Returns the path, for the caller to sync.

    Removes all but the last few snapshots, but keeps the newest at or below `needed_from` and all after it: without
    it, a start that verifies from there would have to read the headers of the whole log."""
    path = f"{directory}/{segment_name(offset, SNAPSHOT_SUFFIX)}"
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.append((observer.snapshot(),))
    finally:
        file.close()
    offsets = snapshot_offsets(disk, directory)
    oldest_needed = max((taken for taken in offsets if taken <= needed_from), default=0) if needed_from else offset
    for old in offsets[:-SNAPSHOTS_KEPT]:
        if old >= oldest_needed:
            break
        disk.remove(f"{directory}/{segment_name(old, SNAPSHOT_SUFFIX)}")
    return path


def restore_newest(disk: Disk, directory: str, observer: BatchObserver, limit: int) -> int | None:
    """Restore the newest valid snapshot at or below `limit` and return its offset. Without one, clear the observer."""
    for offset in reversed(snapshot_offsets(disk, directory)):
        if offset <= limit and observer.restore(
            disk.read_whole(f"{directory}/{segment_name(offset, SNAPSHOT_SUFFIX)}")
        ):
            return offset
    observer.clear()
    return None


def remove_snapshots_above(disk: Disk, directory: str, offset: int) -> int:
    """Remove snapshots that describe batches which the log no longer has. Returns how many."""
    stale = [taken for taken in snapshot_offsets(disk, directory) if taken > offset]
    for taken in stale:
        disk.remove(f"{directory}/{segment_name(taken, SNAPSHOT_SUFFIX)}")
    return len(stale)
