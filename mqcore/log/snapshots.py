"""Store: the producer snapshots of a log, one file per offset at which one was taken.

Own rule: a snapshot is a hint. What it says can be had again from the headers of all batches, so a damaged one is
passed over for an older one. The content is the observer's; only names and number are decided here.
"""

from __future__ import annotations

from typing import Final, Protocol

from mqcore.disk.port import Disk
from mqcore.log.segment import segment_name
from mqcore.wire.batches import BatchHeader

SNAPSHOT: Final = ".snapshot"
_KEPT: Final = 3


class BatchObserver(Protocol):
    """The state of producers: it rides along with the log, and is rebuilt with it."""

    def observe(self, header: BatchHeader) -> None:
        """Every batch, on append and on replay, in order."""
        ...

    def snapshot(self) -> bytes: ...

    def restore(self, snapshot: bytes) -> bool:
        """Take the state from a snapshot; False if it is damaged, then ignore it."""
        ...

    def clear(self) -> None: ...


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """Offsets of all snapshots, oldest first."""
    stems = [name.removesuffix(SNAPSHOT) for name in disk.names(directory) if name.endswith(SNAPSHOT)]
    return [int(stem) for stem in stems if len(stem) == 20 and stem.isdigit()]


def write_snapshot(disk: Disk, directory: str, offset: int, observer: BatchObserver, needed_from: int = 0) -> str:
    """The state before `offset`; the path of the file, for the caller to sync.

    Old ones beyond the last few go, but never the newest at or below `needed_from`, nor any later one: a start that
    verifies from there would have to read the headers of the whole log instead."""
    path = f"{directory}/{segment_name(offset, SNAPSHOT)}"
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.append((observer.snapshot(),))
    finally:
        file.close()
    offsets = snapshot_offsets(disk, directory)
    oldest_needed = max((taken for taken in offsets if taken <= needed_from), default=0) if needed_from else offset
    for old in offsets[:-_KEPT]:
        if old >= oldest_needed:
            break
        disk.remove(f"{directory}/{segment_name(old, SNAPSHOT)}")
    return path


def restore_newest(disk: Disk, directory: str, observer: BatchObserver, limit: int) -> int | None:
    """Restore the newest good snapshot at or below `limit`; its offset, or None and a cleared observer."""
    for offset in reversed(snapshot_offsets(disk, directory)):
        if offset <= limit and observer.restore(disk.read_whole(f"{directory}/{segment_name(offset, SNAPSHOT)}")):
            return offset
    observer.clear()
    return None


def remove_snapshots_above(disk: Disk, directory: str, offset: int) -> int:
    """They tell of batches that are no more; how many there were."""
    stale = [taken for taken in snapshot_offsets(disk, directory) if taken > offset]
    for taken in stale:
        disk.remove(f"{directory}/{segment_name(taken, SNAPSHOT)}")
    return len(stale)
