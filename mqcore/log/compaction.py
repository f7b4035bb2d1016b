"""Store: compaction of one log, in steps short enough for an event loop.

    for file in compactor.steps():     # None: go on when there is time
        if file is not None:           # a File: sync it (on another thread) before going on
            await run_in_thread(file.sync)
    offset = compactor.cleaned_to      # for the cleaner checkpoint

Own rules: never the active segment, never at or above the limit (high watermark, last stable offset), never what is
younger than `min.compaction.lag.ms`. Memory is bounded by the number of keys: what does not fit waits for the next run.
Whatever the log does between two steps, a swap is made only if its originals are still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Generator, Iterator, Sequence
from typing import Final, NamedTuple

from mqcore.disk.port import Disk, File
from mqcore.log.compaction_rules import Rules, digest, supersedes
from mqcore.log.compaction_swap import CLEANED, SWAP, finish_swap
from mqcore.log.config import LogConfig
from mqcore.log.errors import CorruptLog
from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.log import Log
from mqcore.log.rolling import MOST_RELATIVE
from mqcore.log.segment import INDEX, LOG, NO_TIMESTAMP, SUFFIXES, TIME_INDEX, Segment
from mqcore.wire.batches import BadBatch, BatchHeader, read_header
from mqcore.wire.records import iterate_records

MOST_KEYS: Final = 500_000  # about 70 MB
_RECORDS_A_STEP: Final = 1000
_WRITE_BYTES: Final = 1 << 20


class Cleanable(NamedTuple):
    """What compaction could do for a log."""

    first_dirty: int
    end: int  # exclusive; a segment boundary
    dirty_ratio: float
    is_due: bool


def cleanable(log: Log, first_dirty: int, limit: int, now_ms: int) -> Cleanable:
    """`first_dirty` is where the last run ended (the cleaner checkpoint); a checkpoint that cannot be is ignored."""
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
    return Cleanable(first_dirty, end, ratio, is_due)


class Compactor:
    """One run over one log. Faults of the disk come out of `steps` as OSError; the log is as good as before."""

    def __init__(
        self,
        disk: Disk,
        log: Log,
        *,
        first_dirty: int,
        limit: int,
        now_ms: int,
        most_keys: int = MOST_KEYS,
        active_producers: Container[int] | None = None,
    ) -> None:
        """`active_producers` are those whose last batch stays (default: all)."""
        self._disk = disk
        self._log = log
        self._range = cleanable(log, first_dirty, limit, now_ms)
        self._now_ms = now_ms
        self._most_keys = most_keys
        self._active_producers = active_producers
        self._latest: dict[bytes, int] = {}
        self._last_of_producer: dict[int, int] = {}
        self._covered = self._range.first_dirty
        self._beside: list[str] = []  # the files we write, until they have their places
        self.cleaned_to = self._range.first_dirty
        self.bytes_before = 0
        self.bytes_after = 0

    def run(self) -> None:
        """All steps at once."""
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
            self._drop_what_was_written()
            taken_away = isinstance(fault, CorruptLog | FileNotFoundError) and not self._is_in_place(originals)
            if not taken_away:
                raise

    def _drop_what_was_written(self) -> None:
        """A full disk needs the space. (Steps that are never resumed leave the file to the next run or start.)"""
        for path in self._beside:
            self._disk.remove(path)
        self._beside = []

    def _clean(self, originals: Sequence[Segment]) -> Iterator[File | None]:
        rules = Rules(self._latest, self._now_ms, self._log.config.delete_retention_ms)
        for group in group_segments(originals, self._log.config):
            if not self._is_in_place(group):
                return  # truncated or deleted meanwhile: the next run sees what is left
            cleaned = yield from self._rewrite(group, rules)
            if not self._is_in_place(group):
                self._drop_what_was_written()
                return
            self._swap(group, cleaned)
            yield None
        self.cleaned_to = self._covered

    # --- what is there -----------------------------------------------------------------------------------------------

    def _read_keys(self, originals: Sequence[Segment]) -> Iterator[None]:
        """Fill the map of newest offsets, batch by batch, as far as it goes."""
        for segment in originals:
            if self._log.segments.end_of(self._log.segments.index_of(segment.base_offset), 0) <= self._covered:
                continue
            for position, header in segment.headers(segment.locate(self._covered)):
                if supersedes(header) and header.records_count:
                    if len(self._latest) >= self._most_keys:
                        return
                    yield from self._note_keys(segment.file.read(position, header.size), header)
                self._covered = header.next_offset
                yield None
            self._log.segments.keep_open(segment)

    def _note_keys(self, batch: bytes, header: BatchHeader) -> Iterator[None]:
        latest: dict[bytes, int] = {}
        try:
            for number, record in enumerate(iterate_records(batch, header), 1):
                if record.key is not None:
                    latest[digest(record.key)] = record.offset
                if number % _RECORDS_A_STEP == 0:
                    yield None
        except BadBatch:
            return  # malformed records from before the topic was compacted: they stay as they are, and replace nothing
        self._latest.update(latest)

    def _read_producers(self, originals: Sequence[Segment]) -> Iterator[None]:
        """Where the last batch of each active producer ends, as far as we clean."""
        active = self._active_producers
        for segment in originals:
            for number, (_, header) in enumerate(segment.headers(), 1):
                is_active = header.producer_id >= 0 and (active is None or header.producer_id in active)
                if is_active and not header.is_control:
                    self._last_of_producer[header.producer_id] = header.last_offset
                if number % _RECORDS_A_STEP == 0:
                    yield None
            self._log.segments.keep_open(segment)
            yield None

    # --- what becomes of it ------------------------------------------------------------------------------------------

    def _rewrite(self, group: Sequence[Segment], rules: Rules) -> Generator[File | None, None, Segment]:
        """Write the cleaned segment beside its originals; its files are durable when this ends."""
        base = group[0].base_offset
        self._beside = [group[0].path(suffix) + CLEANED for suffix in SUFFIXES]
        file = self._disk.open(self._beside[0], create=True)
        file.truncate(0)
        cleaned = Segment(self._disk, self._log.directory, base, file=file)
        cleaned.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, base))
        waiting = bytearray()
        headers: list[BatchHeader] = []
        interval = self._log.config.index_interval_bytes
        end = self._log.segments.end_of(self._log.segments.index_of(group[-1].base_offset), self._log.end_offset)
        for segment in group:
            for position, header in segment.headers():
                batch = yield from self._left_of(segment, position, header, rules, is_last=header.next_offset >= end)
                if batch is not None:
                    waiting += batch
                    headers.append(read_header(batch))
                if len(waiting) >= _WRITE_BYTES:
                    cleaned.append(waiting, headers, interval)
                    waiting, headers = bytearray(), []
                yield None
            self.bytes_before += segment.size
            self._log.segments.keep_open(segment)
        cleaned.append(waiting, headers, interval)
        self.bytes_after += cleaned.size
        yield file
        for path in cleaned.write_indexes(CLEANED):  # what a power loss leaves of an index might look right
            with contextlib.closing(self._disk.open(path)) as index:
                yield index
        return cleaned

    def _left_of(
        self, segment: Segment, position: int, header: BatchHeader, rules: Rules, *, is_last: bool
    ) -> Generator[None, None, bytes | None]:
        batch = segment.file.read(position, header.size)
        if header.is_control or header.base_offset >= self._covered:
            return batch  # beyond the key map, older values of a key are still there
        horizon_passed = rules.horizon_passed(header)
        kept = []
        try:
            for number, record in enumerate(iterate_records(batch, header), 1):
                if rules.stays(record, horizon_passed):
                    kept.append(record)
                if number % _RECORDS_A_STEP == 0:
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
        """The point of no return is the rename to `.swap`; a crash after it is completed by the next start.

        Memory changes first: a `sync` on another thread then misses no file that is being removed.
        """
        directory, path = self._log.directory, cleaned.path(LOG)
        end = self._log.segments.end_of(self._log.segments.index_of(group[-1].base_offset), self._log.end_offset)
        with self._log.faults.no_way_back():
            self._disk.rename(path + CLEANED, path + SWAP)
            self._disk.sync_directory(directory)
            self._log.replace_segments(group, cleaned)
            finish_swap(self._disk, directory, cleaned.base_offset, end)
            for suffix in (INDEX, TIME_INDEX):
                self._disk.rename(cleaned.path(suffix) + CLEANED, cleaned.path(suffix))
            self._beside = []
            self._log.segments.sync_later(())


def group_segments(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbours that fit into one segment together; small remains of many runs become few again."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        fits = size + segment.size <= config.segment_bytes
        if groups and fits and segment.base_offset - groups[-1][0].base_offset <= MOST_RELATIVE // 2:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups
