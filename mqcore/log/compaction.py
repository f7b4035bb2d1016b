"""Store: compacts one log, in steps short enough for an event loop.

    for file in compactor.steps():     # None: continue when there is time
        if file is not None:           # a File: sync it on another thread before continuing
            await run_in_thread(file.sync)
    offset = compactor.cleaned_to      # for the cleaner checkpoint

Own rules: compaction never touches the active segment, nor anything at or above the limit (the last stable offset) or
younger than `min.compaction.lag.ms`. The number of keys bounds its memory: further keys wait for the next run. The log
may change between two steps, so a replacement is made only while all originals are still in place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Generator, Iterator, Sequence
from typing import Final, NamedTuple

from mqcore.disk.port import Disk, File
from mqcore.log.compaction_rules import KeepRules, digest, replaces_older_records
from mqcore.log.compaction_swap import finish_swap
from mqcore.log.errors import CorruptLog
from mqcore.log.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from mqcore.log.log import Log
from mqcore.log.segment import NO_TIMESTAMP, Segment
from mqcore.log.segment_files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import BadBatch, BatchHeader, read_header
from mqcore.wire.records import iterate_records

KEYS_MAX: Final = 500_000  # about 70 MB
_RECORDS_PER_STEP: Final = 1000
_WRITE_BYTES: Final = 1 << 20


class CleanableRange(NamedTuple):
    """The part of a log that compaction could clean now."""

    first_dirty: int
    end: int  # exclusive; a segment boundary
    dirty_ratio: float
    is_due: bool


def find_cleanable(log: Log, first_dirty: int, limit: int, now_ms: int) -> CleanableRange:
    """`first_dirty` is where the last run ended (the cleaner checkpoint). A value outside of the log is ignored."""
    config, items = log.config, log.segments.items
    active_base = items[-1].base_offset
    if not log.segments.bases[0] <= first_dirty <= active_base:
        first_dirty = log.segments.bases[0]
    end, clean_bytes, dirty_bytes, oldest = first_dirty, 0, 0, None
    for index, segment in enumerate(items[:-1]):
        segment_end = log.segments.bases[index + 1]
        if segment_end <= first_dirty:
            clean_bytes += segment.size
            continue
        too_young = config.min_compaction_lag_ms > 0 and segment.age_timestamp > now_ms - config.min_compaction_lag_ms
        if segment_end > limit or too_young:
            break
        end = segment_end
        dirty_bytes += segment.size
        oldest = segment.first_timestamp if oldest is None else oldest
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    overdue = oldest is not None and 0 <= oldest < now_ms - config.max_compaction_lag_ms
    is_due = config.compact and dirty_bytes > 0 and (overdue or ratio >= config.min_cleanable_dirty_ratio)
    return CleanableRange(first_dirty, end, ratio, is_due)


class Compactor:
    """One run over one log. `steps` raises `OSError` if the disk fails; the log is then unchanged."""

    def __init__(
        self,
        disk: Disk,
        log: Log,
        *,
        first_dirty: int,
        limit: int,
        now_ms: int,
        keys_max: int = KEYS_MAX,
        active_producers: Container[int] | None = None,
    ) -> None:
        """Keeps the last batch of each of the `active_producers` (default: of every producer)."""
        self._disk = disk
        self._log = log
        self._range = find_cleanable(log, first_dirty, limit, now_ms)
        self._now_ms = now_ms
        self._keys_max = keys_max
        self._active_producers = active_producers
        self._latest: dict[bytes, int] = {}
        self._last_of_producer: dict[int, int] = {}
        self._covered = self._range.first_dirty
        self._cleaned_files: list[str] = []  # those not swapped in yet
        self.cleaned_to = self._range.first_dirty
        self.bytes_before = 0
        self.bytes_after = 0

    def run(self) -> None:
        """Run all steps at once."""
        for file in self.steps():
            if file is not None:
                file.sync()

    def steps(self) -> Iterator[File | None]:
        originals = [segment for segment in self._log.segments.items[:-1] if segment.base_offset < self._range.end]
        try:
            yield from self._read_keys(originals)
            if self._covered > self._range.first_dirty:
                yield from self._read_producers(originals)
                yield from self._clean([segment for segment in originals if segment.base_offset < self._covered])
        except (CorruptLog, OSError) as fault:
            self._remove_cleaned_files()
            was_removed = isinstance(fault, CorruptLog | FileNotFoundError) and not self._is_in_place(originals)
            if not was_removed:
                raise

    def _remove_cleaned_files(self) -> None:
        """Give the space back at once, because the disk may be full. An abandoned run leaves this to the next one."""
        for path in self._cleaned_files:
            self._disk.remove(path)
        self._cleaned_files = []

    def _clean(self, originals: Sequence[Segment]) -> Iterator[File | None]:
        rules = KeepRules(self._latest, self._now_ms, self._log.config.delete_retention_ms)
        for group in group_segments(originals, self._log.config):
            if not self._is_in_place(group):
                return  # the log was truncated or deleted; the next run starts from what is left
            cleaned = yield from self._rewrite(group, rules)
            if not self._is_in_place(group):
                self._remove_cleaned_files()
                return
            self._swap(group, cleaned)
            yield None
        self.cleaned_to = self._covered

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read_keys(self, originals: Sequence[Segment]) -> Iterator[None]:
        """Fill the map of newest offsets, batch by batch, until it is full."""
        for segment in originals:
            if self._log.segments.end_of(self._log.segments.index_of(segment.base_offset), 0) <= self._covered:
                continue
            for position, header in segment.headers(segment.locate(self._covered)):
                if replaces_older_records(header) and header.records_count:
                    if len(self._latest) >= self._keys_max:
                        return
                    yield from self._note_keys(segment.file.read(position, header.size), header)
                self._covered = header.next_offset
                yield None
            self._log.segments.note_open(segment)

    def _note_keys(self, batch: bytes, header: BatchHeader) -> Iterator[None]:
        latest: dict[bytes, int] = {}
        try:
            for number, record in enumerate(iterate_records(batch, header), 1):
                if record.key is not None:
                    latest[digest(record.key)] = record.offset
                if number % _RECORDS_PER_STEP == 0:
                    yield None
        except BadBatch:
            return  # invalid records, written before the topic was compacted: keep them, but let them replace nothing
        self._latest.update(latest)

    def _read_producers(self, originals: Sequence[Segment]) -> Iterator[None]:
        """Find where the last batch of each active producer ends, in the part to clean."""
        active = self._active_producers
        for segment in originals:
            for number, (_, header) in enumerate(segment.headers(), 1):
                is_active = header.producer_id >= 0 and (active is None or header.producer_id in active)
                if is_active and not header.is_control:
                    self._last_of_producer[header.producer_id] = header.last_offset
                if number % _RECORDS_PER_STEP == 0:
                    yield None
            self._log.segments.note_open(segment)
            yield None

    # --- writing -----------------------------------------------------------------------------------------------------

    def _rewrite(self, group: Sequence[Segment], rules: KeepRules) -> Generator[File | None, None, Segment]:
        """Write the cleaned segment beside its originals. Its files are durable when this returns."""
        base = group[0].base_offset
        self._cleaned_files = [group[0].path(suffix) + CLEANED_SUFFIX for suffix in SEGMENT_SUFFIXES]
        file = self._disk.open(self._cleaned_files[0], create=True)
        file.truncate(0)
        cleaned = Segment(self._disk, self._log.directory, base, file=file)
        cleaned.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, base))
        waiting = bytearray()
        headers: list[BatchHeader] = []
        interval = self._log.config.index_interval_bytes
        end = self._log.segments.end_of(self._log.segments.index_of(group[-1].base_offset), self._log.end_offset)
        for segment in group:
            for position, header in segment.headers():
                batch = yield from self._clean_batch(
                    segment, position, header, rules, is_last=header.next_offset >= end
                )
                if batch is not None:
                    waiting += batch
                    headers.append(read_header(batch))
                if len(waiting) >= _WRITE_BYTES:
                    cleaned.append(waiting, headers, interval)
                    waiting, headers = bytearray(), []
                yield None
            self.bytes_before += segment.size
            self._log.segments.note_open(segment)
        cleaned.append(waiting, headers, interval)
        self.bytes_after += cleaned.size
        yield file
        for path in cleaned.write_indexes(CLEANED_SUFFIX):  # synced too: a torn index might still look valid
            with contextlib.closing(self._disk.open(path)) as index:
                yield index
        return cleaned

    def _clean_batch(
        self, segment: Segment, position: int, header: BatchHeader, rules: KeepRules, *, is_last: bool
    ) -> Generator[None, None, bytes | None]:
        batch = segment.file.read(position, header.size)
        if header.is_control or header.base_offset >= self._covered:
            return batch  # beyond the key map, older values of a key may still exist, so nothing can be dropped
        has_horizon_passed = rules.has_horizon_passed(header)
        kept = []
        try:
            for number, record in enumerate(iterate_records(batch, header), 1):
                if rules.keeps(record, has_horizon_passed):
                    kept.append(record)
                if number % _RECORDS_PER_STEP == 0:
                    yield None
        except BadBatch:
            return batch
        ends_producer = self._last_of_producer.get(header.producer_id) == header.last_offset
        return rules.rewrite(batch, header, kept, must_stay=is_last or ends_producer)

    def _is_in_place(self, group: Sequence[Segment]) -> bool:
        items = self._log.segments.items
        first = self._log.segments.index_of(group[0].base_offset)
        return first >= 0 and items[first : first + len(group)] == list(group) and group[-1] is not items[-1]

    def _swap(self, group: Sequence[Segment], cleaned: Segment) -> None:
        """Replace a group of originals. After the rename to `.swap`, the next start completes what a crash interrupts.

        The order matters. The folder is synced before any original is removed. Memory changes before the files, so that
        a `sync` on another thread does not look for a file that is being removed. Indexes are renamed last: a missing
        index is rebuilt, but an index next to the wrong log would be read.
        """
        directory, path = self._log.directory, cleaned.path(LOG_SUFFIX)
        end = self._log.segments.end_of(self._log.segments.index_of(group[-1].base_offset), self._log.end_offset)
        with self._log.faults.fatal_on_error():
            self._disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
            self._disk.sync_directory(directory)
            self._log.replace_segments(group, cleaned)
            finish_swap(self._disk, directory, cleaned.base_offset, end)
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                self._disk.rename(cleaned.path(suffix) + CLEANED_SUFFIX, cleaned.path(suffix))
            self._cleaned_files = []
            self._log.segments.add_unsynced(())


def group_segments(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Group neighbouring segments that fit into one, so that many small cleaned segments are merged."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        fits = size + segment.size <= config.segment_bytes
        if groups and fits and segment.base_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX // 2:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups
