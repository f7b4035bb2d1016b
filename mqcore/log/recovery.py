"""Store: loads the files of a partition as a log that can be trusted.

After a clean stop all files are as they were written. After a crash, all batches from the segment of the recovery point
on are verified. An invalid tail that reaches the end of the log is a torn write and is cut. An invalid batch with valid
batches after it, or below the recovery point, is corruption: nothing is changed and the partition stays offline.

Own rule: recovery may itself crash at any point and run again, so each step leaves a state that recovery accepts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mqcore.disk.port import Disk
from mqcore.log.compaction_swap import finish_swaps
from mqcore.log.epochs import EpochStart
from mqcore.log.epochs_file import EPOCHS_FILE, read_epochs
from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.scan import ScanResult
from mqcore.log.segment import NO_TIMESTAMP, Segment
from mqcore.log.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_bases,
    segment_name,
)
from mqcore.log.segments import Segments
from mqcore.log.snapshots import BatchObserver, remove_snapshots_above, restore_newest
from mqcore.log.topic_config import LogConfig
from mqcore.log.validity import FirstInvalidBatch, find_continuation, find_first_invalid
from mqcore.wire.batches import BatchHeader

_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)


@dataclass(slots=True)
class RecoveryReport:
    """What happened while a log was opened. The caller logs it."""

    clean: bool
    scanned_segments: int = 0
    scanned_batches: int = 0
    scanned_bytes: int = 0
    replayed_batches: int = 0
    cut_file: str | None = None
    cut_position: int = 0
    cut_bytes: int = 0
    cut_reason: str | None = None
    missing_offsets: int = 0  # below the recovery point but not in the file: a durable tail is lost
    removed: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)


class LoadedLog(NamedTuple):
    segments: Segments
    end_offset: int
    epochs: list[EpochStart]
    recovery: RecoveryReport


def load_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    observer: BatchObserver,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
) -> LoadedLog:
    disk.make_directory(directory)
    recovery = RecoveryReport(clean)
    bases = _remove_leftovers(disk, directory, recovery)
    if not bases:
        segments = Segments(disk, directory, [], clean=False)
        segments.add(Segment.create(disk, directory, start_offset))
        remove_snapshots_above(disk, directory, -1)
        observer.clear()
        return LoadedLog(segments, start_offset, [], recovery)
    items = [Segment(disk, directory, base) for base in bases]
    if clean:
        return _load_clean(disk, directory, items, observer, recovery)
    return _Verification(disk, directory, config, observer, items, recovery).run(recovery_point)


def _remove_leftovers(disk: Disk, directory: str, recovery: RecoveryReport) -> list[int]:
    """Complete or remove what a crash interrupted. Returns the base offsets of the segments.

    Swaps come first, because a completed swap may remove the segment whose index would otherwise be an orphan."""
    recovery.removed += finish_swaps(disk, directory)
    names = disk.names(directory)
    bases = segment_bases(names)
    logs = {segment_name(base) for base in bases}
    for name in names:
        is_index = name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        is_orphan = is_index and f"{name.partition('.')[0]}{LOG_SUFFIX}" not in logs
        if is_orphan or name.endswith(_LEFTOVER_SUFFIXES):
            disk.remove(f"{directory}/{name}")
            recovery.removed.append(name)
    return bases


def _load_clean(
    disk: Disk, directory: str, items: list[Segment], observer: BatchObserver, recovery: RecoveryReport
) -> LoadedLog:
    active = items[-1]
    last = active.last_header()
    end_offset = active.base_offset if last is None else last.next_offset
    start = restore_newest(disk, directory, observer, end_offset)
    replay_headers(items, observer, items[0].base_offset if start is None else start, recovery)
    epochs = read_epochs(disk, directory)
    if epochs is None or _is_outdated(epochs, items) or (epochs and epochs[-1].start_offset > end_offset):
        epochs = _epochs_from_batches(items, [])
        recovery.rebuilt.append(EPOCHS_FILE)
    return LoadedLog(Segments(disk, directory, items, clean=True), end_offset, epochs, recovery)


def replay_headers(
    items: list[Segment], observer: BatchObserver, start: int, recovery: RecoveryReport | None = None
) -> None:
    """Pass the header of every batch from offset `start` on to the observer."""
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


def _is_outdated(epochs: list[EpochStart], items: list[Segment]) -> bool:
    """Whether the last batch has a newer epoch than the epochs file, which was then not saved in time."""
    for segment in reversed(items):
        last = segment.last_header()
        if last is not None:
            return last.leader_epoch > (epochs[-1].epoch if epochs else -1)
    return False


def _epochs_from_batches(items: list[Segment], epochs: list[EpochStart]) -> list[EpochStart]:
    for segment in items:
        for _, header in segment.headers():
            if header.leader_epoch > (epochs[-1].epoch if epochs else -1):
                epochs.append(EpochStart(header.leader_epoch, header.base_offset))
    return epochs


class _Verification:
    """One scan over everything that may not have reached the disk. It visits its own scan (`ScanVisitor`)."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        observer: BatchObserver,
        items: list[Segment],
        recovery: RecoveryReport,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._observer = observer
        self._items = items
        self._recovery = recovery
        self._epochs: list[EpochStart] = []
        self._stored_epochs: dict[int, int] = {}  # epoch → start offset, as the epochs file has them
        self._next_offset = 0

    def run(self, recovery_point: int) -> LoadedLog:
        """The order of the steps matters: state before the scan, then the scan, the cut, the syncs."""
        first = max(0, sum(segment.base_offset <= recovery_point for segment in self._items) - 1)
        self._restore_state_before(first)
        self._next_offset = self._items[first].base_offset
        next_offset, invalid = find_first_invalid(
            self._items,
            first=first,
            last_epoch=self._epochs[-1].epoch if self._epochs else -1,
            gaps_allowed_in_active=self._config.compact,
            visitor=self,
        )
        if invalid is not None:
            self._cut(invalid, recovery_point)
        # Even a log that lost its end exactly between two batches, so that nothing is cut, has outdated snapshots.
        remove_snapshots_above(self._disk, self._directory, next_offset)
        # Sync before new batches are appended: a power loss must not undo the cut underneath them.
        self._items[-1].file.sync()
        self._disk.sync_directory(self._directory)
        self._recovery.missing_offsets = max(0, recovery_point - next_offset)
        segments = Segments(self._disk, self._directory, self._items, clean=False)
        for segment in self._items[first:-1]:
            segments.add_unsynced(segment.write_indexes())
            segment.release()  # a log may have more segments than the process may open files
        return LoadedLog(segments, next_offset, self._epochs, self._recovery)

    def _restore_state_before(self, first: int) -> None:
        """Restore producers and epochs as they were before the first segment to verify."""
        before, scan_base = self._items[:first], self._items[first].base_offset
        start = restore_newest(self._disk, self._directory, self._observer, scan_base)
        replay_headers(before, self._observer, self._items[0].base_offset if start is None else start, self._recovery)
        epochs = read_epochs(self._disk, self._directory)
        if epochs is None:
            self._recovery.rebuilt.append(EPOCHS_FILE)
        self._stored_epochs = dict(epochs or ())
        self._epochs = [start for start in epochs or () if start.start_offset < scan_base]
        if _is_outdated(self._epochs, before):
            _epochs_from_batches(before, self._epochs)

    # --- the scan's visitor ------------------------------------------------------------------------------------------

    def begin_segment(self, segment: Segment) -> None:
        segment.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, segment.base_offset))

    def visit_batch(self, segment: Segment, position: int, header: BatchHeader) -> None:
        segment.add_to_indexes(position, header, self._config.index_interval_bytes)
        if header.leader_epoch > (self._epochs[-1].epoch if self._epochs else -1):
            stored = self._stored_epochs.get(header.leader_epoch, -1)  # the epoch's first batch may be compacted away
            is_plausible = self._next_offset <= stored <= header.base_offset
            self._epochs.append(EpochStart(header.leader_epoch, stored if is_plausible else header.base_offset))
        self._next_offset = header.next_offset
        self._observer.observe(header)

    def end_segment(self, result: ScanResult) -> None:
        self._recovery.scanned_segments += 1
        self._recovery.scanned_batches += result.batches
        self._recovery.scanned_bytes += result.end_position

    # --- the cut -----------------------------------------------------------------------------------------------------

    def _cut(self, invalid: FirstInvalidBatch, recovery_point: int) -> None:
        """Cut a torn write. Raises `CorruptLog` if it is anything else."""
        segment, position, reason = self._items[invalid.segment_index], invalid.position, invalid.reason
        if invalid.next_offset < recovery_point:
            raise segment.corrupt(position, f"{reason}, below the recovery point {recovery_point}")
        if invalid.is_misplaced:
            raise segment.corrupt(position, reason)
        continuation = find_continuation(self._items, invalid)
        if continuation is not None:
            raise segment.corrupt(position, f"{reason}, yet a valid batch follows in {continuation}")
        recovery, removed = self._recovery, self._items[invalid.segment_index + 1 :]
        recovery.cut_file, recovery.cut_position = segment_name(segment.base_offset), position
        recovery.cut_bytes = segment.size - position + sum(later.size for later in removed)
        recovery.cut_reason = reason
        for later in removed:  # in any order, because none of them contains a valid batch
            for suffix in SEGMENT_SUFFIXES:
                self._disk.remove(later.path(suffix))
        del self._items[invalid.segment_index + 1 :]
        segment.cut(position)
