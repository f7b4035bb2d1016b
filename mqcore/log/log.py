"""Store: the log of one partition: batches are appended at the end, read from anywhere, and survive crashes.

Own rules:
* Everything is called on one thread, except `sync`, which may run on another one next to appends, reads and rolls.
* After an unexpected disk error the log has failed for good (`LogFailed`). A full disk is expected: the caller gets the
  OSError, nothing has changed, and the next append may succeed.
* Everything below the stored recovery point counts as durable. So the owner must lower it before `truncate_to`, and
  remove it together with the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from threading import Lock

from mqcore.disk.port import Buffer, Disk
from mqcore.log.epochs import EpochCache
from mqcore.log.epochs_file import EPOCHS_FILE, EpochsFile
from mqcore.log.errors import DESCRIPTOR_ERRNOS, FaultPolicy
from mqcore.log.index import RELATIVE_OFFSET_MAX
from mqcore.log.log_reader import LogReader
from mqcore.log.recovery import LoadedLog, load_log, replay_headers
from mqcore.log.retention import RetentionCheck
from mqcore.log.rolling import must_roll, segment_age_ms
from mqcore.log.segment import Segment
from mqcore.log.segments import Segments
from mqcore.log.slices import Slice
from mqcore.log.snapshots import BatchObserver, remove_snapshots_above, restore_newest, write_snapshot
from mqcore.log.times import TimeSearch, search_max_timestamp, search_time
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import BatchHeader


class Log:
    """Create it with `Log.open`."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, observer: BatchObserver, loaded: LoadedLog, now_ms: int
    ) -> None:
        self.directory = directory
        self.config = config
        self.recovery = loaded.recovery
        self.segments: Segments = loaded.segments
        self.start_offset = loaded.segments.bases[0]
        self.end_offset = loaded.end_offset
        self.flushed_offset = loaded.end_offset
        self.recovery_point = 0  # as stored by the owner; a start after a crash verifies from there
        self._first_synced = 0  # the owner will not store a recovery point below this
        self.epochs = EpochCache(lambda: self.end_offset, loaded.epochs)
        self._disk = disk
        self._observer = observer
        self._segment_created_ms = now_ms  # of the active segment; for a reopened one, when it was opened
        is_saved = loaded.recovery.clean and EPOCHS_FILE not in loaded.recovery.rebuilt
        self._epochs_file = EpochsFile(disk, directory, self.epochs.starts if is_saved else None)
        self._has_changed = not loaded.recovery.clean  # since a clean stop last wrote indexes and snapshot
        self._reader = LogReader(self.segments)
        self.faults = FaultPolicy(directory)
        self._syncing = Lock()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool,
        recovery_point: int,
        observer: BatchObserver,
        start_offset: int = 0,
    ) -> Log:
        """Open the log, or create it at `start_offset`. Unless `clean`, verify it from `recovery_point` on."""
        loaded = load_log(
            disk, directory, config, observer, clean=clean, recovery_point=recovery_point, start_offset=start_offset
        )
        log = cls(disk, directory, config, observer, loaded, now_ms)
        if not clean:
            log.flushed_offset = min(max(recovery_point, log.start_offset), log.end_offset)
        log.recovery_point = recovery_point
        if start_offset > log.end_offset:
            log.truncate_fully(start_offset)
        log.start_offset = max(log.start_offset, start_offset)
        log.epochs.truncate_start(log.start_offset)
        return log

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, batches: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Append stamped batches in one write. After an OSError nothing has changed."""
        self.faults.check()
        last = headers[-1]
        last_offset = last.base_offset + last.last_offset_delta
        segment = self.segments.items[-1]
        size = segment.size
        is_full = size and must_roll(
            self.config,
            size + len(batches),
            last_offset - segment.base_offset,
            segment.index_bytes,
            segment_age_ms(segment.first_timestamp, last.max_timestamp, now_ms - self._segment_created_ms),
            segment.stem,
        )
        if is_full and not self.segments.may_exceed_limit(len(batches)):
            try:
                self.roll(now_ms)
            except OSError as error:
                if error.errno not in DESCRIPTOR_ERRNOS or not self.segments.has_room(len(batches)):
                    raise  # otherwise the active segment may grow beyond its limit
            segment = self.segments.active
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            self._begin_segment(headers[0].base_offset, now_ms)
            segment = self.segments.active
        try:  # not a context manager, because this is the hot path
            segment.append(batches, headers, self.config.index_interval_bytes)
        except OSError as error:
            self.faults.raise_if_fatal(error)
            raise
        for header in headers:
            if header.leader_epoch > self.epochs.last_epoch:
                self.epochs.begin(header.leader_epoch, header.base_offset)
            self._observer.observe(header)
        self.end_offset = last_offset + 1
        self._has_changed = True

    def roll(self, now_ms: int) -> None:
        """Seal the active segment and begin the next one. May be repeated after an OSError."""
        self.faults.check()
        if self.segments.active.size:
            self._begin_segment(self.end_offset, now_ms)

    def _begin_segment(self, base_offset: int, now_ms: int, *, keeps_active: bool = True) -> None:
        """Without `keeps_active` the old segment is about to be deleted, so a full disk need not store its indexes."""
        active, tolerated = self.segments.active, () if keeps_active else (OSError,)
        files: list[str] = []
        with self.faults.retryable():
            if len(self.segments.items) == 1:
                self.segments.sync_names()  # without its first segment, a log seems to begin with its second
            with contextlib.suppress(*tolerated), self.faults.retryable():
                files += [*active.write_indexes(), self._write_snapshot(base_offset)]
            segment = Segment.create(self._disk, self.directory, base_offset)
            self.segments.add_unsynced(files)
            self._segment_created_ms, self._has_changed = now_ms, True
            self.segments.begin(segment, now_ms + self.config.file_delete_delay_ms)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, limit: int, at_least_one: bool = True) -> Slice | None:
        """Batches from the one that contains `offset` on, below `limit`, in one segment. The last may be cut off.

        The first batch is always complete, unless `at_least_one` is off. None if there is nothing to read.
        """
        if offset >= limit:
            return None
        try:
            return self._reader.read(offset, max_bytes, limit, self.end_offset, at_least_one)
        except OSError as error:
            self.faults.raise_if_fatal(error)
            raise

    def search_time(self, timestamp: int, *, limit: int) -> TimeSearch:
        """The first record below `limit` that is not older than `timestamp`."""
        return search_time(self.segments.items, timestamp, self.start_offset, limit)

    def search_max_timestamp(self, *, limit: int) -> TimeSearch:
        """The first record with the largest timestamp below `limit`."""
        return search_max_timestamp(self.segments.items, self.start_offset, limit)

    # --- removing ----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Durably cut at the batch boundary at or below `offset`, and take epochs and producers back to that point.

        The order matters: first snapshots of removed batches, then whole segments from the last one on."""
        self.faults.check()
        if offset >= self.end_offset:
            return
        if offset <= self.segments.bases[0]:
            self.truncate_fully(offset)
            return
        with self._syncing, self.faults.fatal_on_error():
            self._reader.forget()
            if remove_snapshots_above(self._disk, self.directory, offset):
                self._disk.sync_directory(self.directory)
            while self.segments.bases[-1] >= offset:
                self.segments.drop_last(0)
            segment = self.segments.active
            position = segment.locate(offset)
            if position < segment.size:
                segment.truncate(position)
                segment.file.sync()
            last = segment.last_header()
            self._reset_end(segment.base_offset if last is None else last.next_offset)

    def truncate_fully(self, start_offset: int) -> None:
        """Remove everything and continue at `start_offset`."""
        self.faults.check()
        with self._syncing, self.faults.fatal_on_error():
            self._reader.forget()
            remove_snapshots_above(self._disk, self.directory, -1)
            while self.segments.items:
                self.segments.drop_last(0)
            self.segments.add(Segment.create(self._disk, self.directory, start_offset))
            self._disk.sync_directory(self.directory)
            self.start_offset = start_offset
            self.epochs.clear()
            self._reset_end(start_offset)
            self.flushed_offset = start_offset

    def _reset_end(self, end: int) -> None:
        self._has_changed = True
        self.end_offset = end
        self.start_offset = min(self.start_offset, end)
        self.flushed_offset = min(self.flushed_offset, end)
        self.epochs.truncate_end(end)
        self._epochs_file.save(self.epochs.starts)
        start = restore_newest(self._disk, self.directory, self._observer, end)
        replay_headers(self.segments.items, self._observer, self.segments.bases[0] if start is None else start)

    def advance_start(self, offset: int) -> None:
        """Delete the records below `offset`: immediately for readers, on disk with the next `apply_retention`."""
        assert offset <= self.end_offset
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)

    def apply_retention(self, now_ms: int, *, limit: int) -> list[str]:
        """Remove expired segments below `limit`. Returns their names."""
        self.faults.check()
        self.segments.release_sealed(self.flushed_offset)
        removed: list[str] = []
        with contextlib.ExitStack() as even_after_faults:
            even_after_faults.callback(self.segments.unlink_due, now_ms)
            check = RetentionCheck(self.config, self.segments.size_bytes, self.start_offset, limit, now_ms)
            count = self.segments.count_expired(check, self.end_offset)
            even_after_faults.callback(lambda: self.advance_start(max(self.start_offset, self.segments.bases[0])))
            with self.faults.retryable():
                for _ in range(count):
                    self._reader.forget()
                    if len(self.segments.items) == 1:
                        self._begin_segment(self.end_offset, now_ms, keeps_active=False)
                    removed.append(self.segments.drop_first(now_ms + self.config.file_delete_delay_ms))
        return removed

    def replace_segments(self, group: Sequence[Segment], cleaned: Segment) -> None:
        """Replace a group of sealed segments with a cleaned one, in memory only; see `Compactor`."""
        self._reader.forget()
        first = self.segments.items.index(group[0])
        self.segments.replace(first, first + len(group), cleaned)

    # --- durability --------------------------------------------------------------------------------------------------

    def needs_sync(self) -> bool:
        names = self.segments.has_unsynced_names or not self._epochs_file.contains(self.epochs.starts)
        return names or self.flushed_offset < self.end_offset

    def sync(self) -> int:
        """Block until everything appended before the call is durable; return its end. May be repeated on OSError."""
        with self._syncing:
            self.faults.check()
            end = self.end_offset
            self._first_synced = self._first_synced or end
            with self.faults.retryable_before_sync():
                self.segments.sync(self.flushed_offset, end)
            with (
                contextlib.suppress(OSError),
                self.faults.retryable(),
            ):  # epochs are a hint: recovery detects a stale file
                self._epochs_file.save(self.epochs.starts)
            self.flushed_offset = max(self.flushed_offset, end)
            return self.flushed_offset

    def _write_snapshot(self, offset: int) -> str:
        needed_from = self.recovery_point or self._first_synced
        return write_snapshot(self._disk, self.directory, offset, self._observer, needed_from)

    def close(self) -> None:
        """Flush everything, including hints. Afterwards the owner may write the clean mark."""
        if self.faults.failure is None:
            if self._has_changed:  # otherwise indexes and snapshot are as the last clean stop left them
                with self.faults.retryable():
                    files = [*self.segments.active.write_indexes(), self._write_snapshot(self.end_offset)]
                self.segments.add_unsynced(files)
            if self.needs_sync():
                self.sync()
            with self.faults.retryable():
                self._epochs_file.save(self.epochs.starts)
        self.segments.close()
