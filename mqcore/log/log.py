"""Store: the log of one partition: batches appended at the end, read from anywhere, kept across crashes.

Own rules:
* Everything is called on one thread, except `sync`, which may run beside appends, reads and rolls on another.
* After an unexpected fault of the disk the log is failed for good (`LogFailed`); a full disk is no such fault: the
  caller gets the OSError, nothing has changed, and the next append may succeed.
* The recovery point that the owner stores must be lowered before `truncate_to` and forgotten with the directory:
  what lies below it is taken to be durable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from threading import Lock

from mqcore.disk.port import Buffer, Disk
from mqcore.log import retention, times
from mqcore.log.config import LogConfig
from mqcore.log.epochs import EpochCache, encode_epochs
from mqcore.log.errors import NO_DESCRIPTORS, CorruptLog, Faults, LogFailed
from mqcore.log.reading import Reader
from mqcore.log.recovery import EPOCHS_FILE, Loaded, load, replay
from mqcore.log.rolling import MOST_RELATIVE, must_roll
from mqcore.log.segment import Segment, Slice
from mqcore.log.segments import Segments
from mqcore.log.snapshots import BatchObserver, remove_snapshots_above, restore_newest, write_snapshot
from mqcore.log.times import TimedOffset
from mqcore.wire.batches import BatchHeader

__all__ = ["BatchObserver", "CorruptLog", "Log", "LogFailed", "Slice", "TimedOffset"]


class Log:
    """One partition on disk; made by `Log.open`."""

    def __init__(
        self, disk: Disk, directory: str, config: LogConfig, observer: BatchObserver, loaded: Loaded, now_ms: int
    ) -> None:
        self.directory = directory
        self.config = config
        self.recovery = loaded.recovery
        self.segments: Segments = loaded.segments
        self.start_offset = loaded.segments.bases[0]
        self.end_offset = loaded.end_offset
        self.flushed_offset = loaded.end_offset
        self.recovery_point = 0  # as the owner has stored it: a start after a crash verifies from there
        self._first_synced = 0  # what the owner may store from now on is not below this
        self.epochs = EpochCache(lambda: self.end_offset, loaded.epochs)
        self._disk = disk
        self._observer = observer
        self._created_ms = now_ms  # of the active segment, as far as we know
        certain = loaded.recovery.clean and EPOCHS_FILE not in loaded.recovery.rebuilt
        self._epochs_saved = self.epochs.starts if certain else None
        self._changed = not loaded.recovery.clean  # since the files were last written as a clean stop leaves them
        self._reader = Reader(self.segments)
        self.faults = Faults(directory)
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
        """Open, or create at `start_offset`. Unless `clean`, verify from `recovery_point` on."""
        loaded = load(
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

    @property
    def failure(self) -> str | None:
        """Why the log takes nothing any more, if so."""
        return self.faults.failure

    @property
    def last_epoch(self) -> int:
        return self.epochs.last_epoch

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, batches: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Append stamped batches, all in one write. On OSError nothing has changed."""
        self.faults.check()
        last = headers[-1]
        segment = self.segments.items[-1]
        is_full = segment.size and must_roll(segment, self.config, len(batches), last, now_ms - self._created_ms)
        if is_full and not self.segments.may_grow(len(batches)):
            try:
                self.roll(now_ms)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self.segments.has_room(len(batches)):
                    raise  # else the active segment goes on past its limit
            segment = self.segments.active
        if last.last_offset - segment.base_offset > MOST_RELATIVE:
            self._begin_segment(headers[0].base_offset, now_ms)
            segment = self.segments.active
        try:  # no context manager: this is the hot path
            segment.append(batches, headers, self.config.index_interval_bytes)
        except OSError as error:
            self.faults.judge(error)
            raise
        for header in headers:
            if header.leader_epoch > self.epochs.last_epoch:
                self.epochs.begin(header.leader_epoch, header.base_offset)
            self._observer.observe(header)
        self.end_offset = last.base_offset + last.last_offset_delta + 1
        self._changed = True

    def roll(self, now_ms: int) -> None:
        """Seal the active segment and begin the next one. May be repeated after an OSError."""
        self.faults.check()
        if self.segments.active.size:
            self._begin_segment(self.end_offset, now_ms)

    def _begin_segment(self, base_offset: int, now_ms: int, *, keeps_active: bool = True) -> None:
        """`keeps_active` is off if the active segment will be deleted at once: then no space is needed."""
        active, tolerated = self.segments.active, () if keeps_active else (OSError,)
        files: list[str] = []
        with self.faults.may_pass():
            if len(self.segments.items) == 1:
                self.segments.sync_names()  # a log whose first segment is lost would seem to begin with its second
            with contextlib.suppress(*tolerated), self.faults.may_pass():
                files += [*active.write_indexes(), self._write_snapshot(base_offset)]
            segment = Segment.create(self._disk, self.directory, base_offset)
            self.segments.sync_later(files)
            self._created_ms, self._changed = now_ms, True
            self.segments.begin(segment, now_ms + self.config.file_delete_delay_ms)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, limit: int, at_least_one: bool = True) -> Slice | None:
        """Whole batches from the one that holds `offset`, below `limit`, in one segment; the last may be cut off.

        The first batch comes whole, however large, unless `at_least_one` is off. None if there is nothing.
        """
        if offset >= limit:
            return None
        try:
            return self._reader.read(offset, max_bytes, limit, self.end_offset, at_least_one)
        except OSError as error:
            self.faults.judge(error)
            raise

    def offset_for_time(self, timestamp: int, *, limit: int) -> TimedOffset | None:
        """The first record that is not older than `timestamp`, below `limit`."""
        with self.faults.may_pass():
            return times.offset_for_time(self.segments.items, timestamp, self.start_offset, limit)

    def max_timestamp(self, *, limit: int) -> TimedOffset | None:
        """The first of the records with the largest timestamp, below `limit`."""
        with self.faults.may_pass():
            return times.max_timestamp(self.segments.items, self.start_offset, limit)

    # --- removing ----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut to the batch boundary at or below `offset`, durably; epochs, producers and flushed point go back too."""
        self.faults.check()
        if offset >= self.end_offset:
            return
        if offset <= self.segments.bases[0]:
            self.truncate_fully(offset)
            return
        with self._syncing, self.faults.no_way_back():
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
            self._go_back(segment.base_offset if last is None else last.next_offset)

    def truncate_fully(self, start_offset: int) -> None:
        """Drop everything and go on at `start_offset`."""
        self.faults.check()
        with self._syncing, self.faults.no_way_back():
            self._reader.forget()
            remove_snapshots_above(self._disk, self.directory, -1)
            while self.segments.items:
                self.segments.drop_last(0)
            self.segments.add(Segment.create(self._disk, self.directory, start_offset))
            self._disk.sync_directory(self.directory)
            self.start_offset = start_offset
            self.epochs.clear()
            self._go_back(start_offset)
            self.flushed_offset = start_offset

    def _go_back(self, end: int) -> None:
        self._changed = True
        self.end_offset = end
        self.start_offset = min(self.start_offset, end)
        self.flushed_offset = min(self.flushed_offset, end)
        self.epochs.truncate_end(end)
        self._save_epochs()
        start = restore_newest(self._disk, self.directory, self._observer, end)
        replay(self.segments.items, self._observer, self.segments.bases[0] if start is None else start)

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are deleted: at once for readers, on disk as whole segments by the next `expire`."""
        assert offset <= self.end_offset
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)

    def expire(self, now_ms: int, *, limit: int) -> list[str]:
        """Retention: remove what is due, never above `limit` nor what is still wanted; the names, for one log line."""
        self.faults.check()
        self.segments.release_idle(self.flushed_offset)
        removed: list[str] = []
        with contextlib.ExitStack() as also_after_a_fault:
            also_after_a_fault.callback(self.segments.reap, now_ms)
            count = retention.due_segments(
                self.segments, self.config, now_ms, self.start_offset, self.end_offset, limit
            )
            also_after_a_fault.callback(lambda: self.advance_start(max(self.start_offset, self.segments.bases[0])))
            with self.faults.may_pass():
                for _ in range(count):
                    self._reader.forget()
                    if len(self.segments.items) == 1:
                        self._begin_segment(self.end_offset, now_ms, keeps_active=False)
                    removed.append(self.segments.drop_first(now_ms + self.config.file_delete_delay_ms))
        return removed

    def replace_segments(self, group: Sequence[Segment], cleaned: Segment) -> None:
        """Compaction puts one segment in the place of a group of sealed ones; see `Compactor`."""
        self._reader.forget()
        first = self.segments.items.index(group[0])
        self.segments.replaced(first, first + len(group), cleaned)

    # --- durability --------------------------------------------------------------------------------------------------

    def dirty(self) -> bool:
        """Is there anything for `sync` to do?"""
        names = self.segments.names_dirty or self.epochs.starts != self._epochs_saved
        return names or self.flushed_offset < self.end_offset

    def sync(self) -> int:
        """Block until everything appended before the call is durable; that offset. After an OSError, try again."""
        with self._syncing:
            self.faults.check()
            end = self.end_offset
            self._first_synced = self._first_synced or end
            with self.faults.syncing():
                self.segments.sync(self.flushed_offset, end)
            with contextlib.suppress(OSError), self.faults.may_pass():  # a hint: recovery sees what is missing in it
                self._save_epochs()
            self.flushed_offset = max(self.flushed_offset, end)
            return self.flushed_offset

    def _write_snapshot(self, offset: int) -> str:
        needed_from = self.recovery_point or self._first_synced
        return write_snapshot(self._disk, self.directory, offset, self._observer, needed_from)

    def _save_epochs(self) -> None:
        starts = self.epochs.starts
        if starts != self._epochs_saved:
            self._disk.replace(f"{self.directory}/{EPOCHS_FILE}", encode_epochs(starts))
            self._epochs_saved = starts

    def close(self) -> None:
        """Flush everything, hints included. After it the owner may write the clean mark."""
        if self.failure is None:
            if self._changed:  # else the files are as the last clean stop left them
                with self.faults.may_pass():
                    files = [*self.segments.active.write_indexes(), self._write_snapshot(self.end_offset)]
                self.segments.sync_later(files)
            if self.dirty():
                self.sync()
            with self.faults.may_pass():
                self._save_epochs()
        self.segments.close()
