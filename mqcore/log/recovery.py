"""Store: from the files of a partition to a log that can be trusted.

After a clean stop everything is as it was written. After any other end the batches from the recovery point's segment on
are verified; an invalid tail that runs to the end is a torn write and is cut; a bad batch with valid ones behind it, or
one that was durable already, is corruption: nothing is changed and the partition stays offline.

Own rule: recovery may itself be cut short anywhere and run again: each step leaves a state it would accept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mqcore.disk.port import Disk
from mqcore.log.compaction_swap import finish_swaps
from mqcore.log.config import LogConfig
from mqcore.log.epochs import EpochStart, decode_epochs
from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.scan import Scanned, find_valid_batch, scan
from mqcore.log.segment import INDEX, LOG, NO_TIMESTAMP, TIME_INDEX, Segment, segment_name
from mqcore.log.segments import DELETED, Segments
from mqcore.log.snapshots import BatchObserver, remove_snapshots_above, restore_newest
from mqcore.wire.batches import BatchHeader

EPOCHS_FILE = "leader-epoch-checkpoint"


@dataclass(slots=True)
class Recovery:
    """What opening a log had to do; one log line by the caller."""

    clean: bool
    scanned_segments: int = 0
    scanned_batches: int = 0
    scanned_bytes: int = 0
    replayed_batches: int = 0
    cut_file: str | None = None
    cut_position: int = 0
    cut_bytes: int = 0
    cut_reason: str | None = None
    missing_offsets: int = 0  # below the recovery point, yet not there: the file lost a durable tail
    removed: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)


class Loaded(NamedTuple):
    segments: Segments
    end_offset: int
    epochs: list[EpochStart]
    recovery: Recovery


def load(
    disk: Disk,
    directory: str,
    config: LogConfig,
    observer: BatchObserver,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
) -> Loaded:
    disk.make_directory(directory)
    recovery = Recovery(clean)
    bases = _tidy(disk, directory, recovery)
    if not bases:
        segments = Segments(disk, directory, [], clean=False)
        segments.add(Segment.create(disk, directory, start_offset))
        remove_snapshots_above(disk, directory, -1)
        observer.clear()
        return Loaded(segments, start_offset, [], recovery)
    items = [Segment(disk, directory, base) for base in bases]
    if clean:
        return _load_clean(disk, directory, items, observer, recovery)
    return _Verification(disk, directory, config, observer, items, recovery).run(recovery_point)


def _tidy(disk: Disk, directory: str, recovery: Recovery) -> list[int]:
    """Finish what a crash left half done, drop leftovers; the bases of the segments."""
    finish_swaps(disk, directory, recovery.removed)
    names = disk.names(directory)
    bases = [int(name[:20]) for name in names if name.endswith(LOG) and len(name) == 24 and name[:20].isdigit()]
    known = {segment_name(base) for base in bases}
    for name in names:
        orphan = name.endswith((INDEX, TIME_INDEX)) and f"{name.partition('.')[0]}{LOG}" not in known
        if orphan or name.endswith((DELETED, ".cleaned", ".tmp")):
            disk.remove(f"{directory}/{name}")
            recovery.removed.append(name)
    return bases


def _load_clean(
    disk: Disk, directory: str, items: list[Segment], observer: BatchObserver, recovery: Recovery
) -> Loaded:
    active = items[-1]
    last = active.last_header()
    end_offset = active.base_offset if last is None else last.next_offset
    start = restore_newest(disk, directory, observer, end_offset)
    replay(items, observer, items[0].base_offset if start is None else start, recovery)
    epochs = _read_epochs(disk, directory)
    if epochs is None or _is_behind(epochs, items) or (epochs and epochs[-1].start_offset > end_offset):
        epochs = _epochs_from_batches(items, [])
        recovery.rebuilt.append(EPOCHS_FILE)
    return Loaded(Segments(disk, directory, items, clean=True), end_offset, epochs, recovery)


def replay(items: list[Segment], observer: BatchObserver, start: int, recovery: Recovery | None = None) -> None:
    """Show the observer every batch from `start` on, by its header."""
    for index, segment in enumerate(items):
        if index + 1 < len(items) and items[index + 1].base_offset <= start:
            continue
        position = segment.locate(start) if start > segment.base_offset else 0
        for _, header in segment.headers(position):
            observer.observe(header)
            if recovery is not None:
                recovery.replayed_batches += 1
        if index + 1 < len(items):
            segment.release()


def _is_behind(epochs: list[EpochStart], items: list[Segment]) -> bool:
    """Was the file not saved in time? Then the last batch is of a newer epoch than it knows."""
    for segment in reversed(items):
        last = segment.last_header()
        if last is not None:
            return last.leader_epoch > (epochs[-1].epoch if epochs else -1)
    return False


def _read_epochs(disk: Disk, directory: str) -> list[EpochStart] | None:
    try:
        return decode_epochs(disk.read_whole(f"{directory}/{EPOCHS_FILE}"))
    except FileNotFoundError:
        return None


def _epochs_from_batches(items: list[Segment], epochs: list[EpochStart]) -> list[EpochStart]:
    for segment in items:
        for _, header in segment.headers():
            if header.leader_epoch > (epochs[-1].epoch if epochs else -1):
                epochs.append(EpochStart(header.leader_epoch, header.base_offset))
    return epochs


class _Verification:
    """One pass over everything that may not have reached the disk."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        observer: BatchObserver,
        items: list[Segment],
        recovery: Recovery,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._observer = observer
        self._items = items
        self._recovery = recovery
        self._epochs: list[EpochStart] = []
        self._remembered: dict[int, int] = {}  # where the epochs began according to their file

    def run(self, recovery_point: int) -> Loaded:
        first = max(0, sum(segment.base_offset <= recovery_point for segment in self._items) - 1)
        scan_base = self._items[first].base_offset
        self._prepare(first, scan_base)
        next_offset, last_epoch = scan_base, self._epochs[-1].epoch if self._epochs else -1
        for index in range(first, len(self._items)):
            result = self._scan(index, next_offset, last_epoch)
            next_offset, last_epoch = result.next_offset, result.last_epoch
            if result.reason is not None:
                self._cut(index, result, recovery_point)
                break
        # A log that lost its end at a batch boundary has nothing to cut, yet snapshots of what is lost.
        remove_snapshots_above(self._disk, self._directory, next_offset)
        # A cut or a removal that the crash left unsynced may still be undone by a power loss: not under new batches.
        self._items[-1].file.sync()
        self._disk.sync_directory(self._directory)
        self._recovery.missing_offsets = max(0, recovery_point - next_offset)
        segments = Segments(self._disk, self._directory, self._items, clean=False)
        for segment in self._items[first:-1]:
            segments.sync_later(segment.write_indexes())
            segment.release()  # a log may have more segments than the process may have files
        return Loaded(segments, next_offset, self._epochs, self._recovery)

    def _prepare(self, first: int, scan_base: int) -> None:
        """State of producers and epochs as of the first batch to verify."""
        before = self._items[:first]
        start = restore_newest(self._disk, self._directory, self._observer, scan_base)
        replay(before, self._observer, self._items[0].base_offset if start is None else start, self._recovery)
        epochs = _read_epochs(self._disk, self._directory)
        if epochs is None:
            self._recovery.rebuilt.append(EPOCHS_FILE)
        self._remembered = dict(epochs or ())
        self._epochs = [start for start in epochs or () if start.start_offset < scan_base]
        if _is_behind(self._epochs, before):
            _epochs_from_batches(before, self._epochs)

    def _gaps_allowed(self, index: int) -> bool:
        """Only compaction leaves gaps, and it leaves the active segment alone (but a follower may copy them there)."""
        return self._config.compact or index + 1 < len(self._items)

    def _scan(self, index: int, next_offset: int, last_epoch: int) -> Scanned:
        segment, interval = self._items[index], self._config.index_interval_bytes
        segment.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, segment.base_offset))

        end = next_offset

        def each(position: int, header: BatchHeader) -> None:
            nonlocal end
            segment.note(position, header, interval)
            if header.leader_epoch > (self._epochs[-1].epoch if self._epochs else -1):
                began = self._remembered.get(header.leader_epoch, -1)  # its first batch may be compacted away
                start = began if end <= began <= header.base_offset else header.base_offset
                self._epochs.append(EpochStart(header.leader_epoch, start))
            end = header.next_offset
            self._observer.observe(header)

        result = scan(segment, next_offset, last_epoch, gaps_allowed=self._gaps_allowed(index), each=each)
        if result.reason is None and index + 1 < len(self._items):
            successor = self._items[index + 1].base_offset
            if successor != result.next_offset:
                reason = f"ends at offset {result.next_offset}, but the next segment begins at {successor}"
                result = replace(result, reason=reason)
        self._recovery.scanned_segments += 1
        self._recovery.scanned_batches += result.batches
        self._recovery.scanned_bytes += result.end_position
        return result

    def _cut(self, index: int, result: Scanned, recovery_point: int) -> None:
        segment, reason = self._items[index], result.reason
        assert reason is not None
        if result.next_offset < recovery_point:
            raise segment.corrupt(result.end_position, f"{reason}, below the recovery point {recovery_point}")
        if result.misplaced:
            raise segment.corrupt(result.end_position, reason)
        beyond = [(segment, result.end_position + 1), *((later, 0) for later in self._items[index + 1 :])]
        for later, position in beyond:
            valid = find_valid_batch(later, position, result.next_offset)
            if valid is not None:
                where = f"{segment_name(later.base_offset)} at {valid}"
                raise segment.corrupt(result.end_position, f"{reason}, yet a valid batch follows in {where}")
        recovery = self._recovery
        recovery.cut_file, recovery.cut_position = segment_name(segment.base_offset), result.end_position
        recovery.cut_bytes = sum(s.size for s in self._items[index:]) - result.end_position
        recovery.cut_reason = reason
        for gone in self._items[index + 1 :]:  # in any order: none of them holds a valid batch
            for suffix in (LOG, INDEX, TIME_INDEX):
                self._disk.remove(gone.path(suffix))
        del self._items[index + 1 :]
        segment.cut(result.end_position)
