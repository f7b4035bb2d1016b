"""Store: one segment: a file of batches, and its two sparse indexes.

Own rule: lookups read only headers, 27 bytes each, from the nearest index entry on. The file and indexes of a sealed
segment are opened when they are first read, and released when they are no longer used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from mqcore.disk.port import Buffer, Disk, File
from mqcore.log.errors import CorruptLog
from mqcore.log.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from mqcore.log.index_files import read_indexes, read_last_time_entry, write_indexes
from mqcore.log.segment_files import LOG_SUFFIX, segment_name
from mqcore.wire.batches import BATCH_LENGTH_MIN, HEADER_BYTES, LENGTH_OVERHEAD, BadBatch, BatchHeader, read_header

NO_TIMESTAMP: Final = -1

_SPAN = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_LOOKUP_BYTES: Final = 4096
_WALK_BYTES: Final = 64 << 10
_DEFAULT_INDEX_INTERVAL_BYTES: Final = 4096


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log, the active one, is appended to."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, file: File | None = None) -> None:
        self.base_offset = base_offset
        self.directory = directory
        self.stem = f"{directory}/{segment_name(base_offset, '')}"  # the path without a suffix
        self._disk = disk
        self._file = file
        self._size = file.size if file is not None else disk.size(self.path(LOG_SUFFIX))
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._largest: tuple[int, int] | None = None  # largest timestamp, last offset of its batch
        self._first_timestamp: int | None = None
        self._since_index = 0

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int) -> Segment:
        """A new, empty segment. If an earlier attempt left a file, it is emptied."""
        file = disk.open(f"{directory}/{segment_name(base_offset)}", create=True)
        if file.size:
            file.truncate(0)
        segment = cls(disk, directory, base_offset, file=file)
        segment.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, base_offset))
        return segment

    def path(self, suffix: str) -> str:
        return self.stem + suffix

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(LOG_SUFFIX))
        return self._file

    @property
    def size(self) -> int:
        return self._size

    def append(self, batches: Buffer, headers: Sequence[BatchHeader], index_interval_bytes: int) -> None:
        position, file = self._size, self.file
        file.append((batches,))
        self._size = file.size
        for header in headers:
            self.add_to_indexes(position, header, index_interval_bytes)
            position += header.length + LENGTH_OVERHEAD

    def add_to_indexes(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Index a batch of the file, if it is due for an entry. Called for every batch in order."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.largest[0] and header.records_count:
            self._largest = (header.max_timestamp, last_offset)
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if self._since_index > index_interval_bytes:
            self.index.add(last_offset - self.base_offset, position)
            timestamp, offset = self.largest
            self.time_index.add(timestamp, offset - self.base_offset)
            self._since_index = 0
        self._since_index += header.length + LENGTH_OVERHEAD

    # --- finding -----------------------------------------------------------------------------------------------------

    def locate(self, offset: int) -> int:
        """The position of the first batch that ends at or above `offset`, or the file's size if no batch does."""
        indexed, position = self.index.floor(offset - self.base_offset)
        file, size = self.file, self._size
        while position < size:
            chunk = file.read(position, min(_LOOKUP_BYTES, size - position))
            at, last = 0, len(chunk) - _SPAN.size
            if last < 0:
                raise self.corrupt(position, "too few bytes for a batch header")
            while at <= last:
                span: tuple[int, int, int] = _SPAN.unpack_from(chunk, at)
                base_offset, length, delta = span
                if indexed >= 0:
                    if base_offset + delta != self.base_offset + indexed:
                        self.rebuild_indexes()  # the index belongs to another log
                        return self.locate(offset)
                    indexed = -1
                if length < BATCH_LENGTH_MIN or delta < 0:
                    raise self.corrupt(position + at, "not a batch")
                missing = offset - base_offset - delta
                if missing <= 0:
                    return position + at
                at += length + LENGTH_OVERHEAD
                if missing == 1:  # it begins right after this batch, so its header need not be read
                    return position + at
            position += at
        return size

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch from `position` up to `end`. Raises `CorruptLog` at anything else."""
        end = self._size if end is None else end
        file = self.file
        chunk, start = b"", position
        while position < end:
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                chunk, start, at = file.read(position, _WALK_BYTES), position, 0
            try:
                header = read_header(chunk, at)
            except BadBatch as error:
                raise self.corrupt(position, str(error)) from error
            yield position, header
            position += header.length + LENGTH_OVERHEAD

    def last_header(self) -> BatchHeader | None:
        """The header of the last batch, searched from the last index entry on."""
        indexed, position = self.index.floor(RELATIVE_OFFSET_MAX)
        if indexed >= 0 and not self.has_batch_ending_at(indexed, position):
            self.rebuild_indexes()
            _, position = self.index.floor(RELATIVE_OFFSET_MAX)
        last = None
        for _, header in self.headers(position):
            last = header
        return last

    def has_batch_ending_at(self, relative_offset: int, position: int) -> bool:
        """Whether an index entry is right: the batch at `position` ends at the offset."""
        try:
            return self.header_at(position).last_offset == self.base_offset + relative_offset
        except CorruptLog:
            return False

    def header_at(self, position: int) -> BatchHeader:
        try:
            return read_header(self.file.read(position, HEADER_BYTES))
        except BadBatch as error:
            raise self.corrupt(position, str(error)) from error

    def corrupt(self, position: int, reason: str) -> CorruptLog:
        return CorruptLog(self.directory, segment_name(self.base_offset), position, reason)

    # --- indexes -----------------------------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def largest(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch). The timestamp is -1 if no batch has one."""
        if self._largest is None:
            self._largest = self._largest_indexed()
        return self._largest

    def _largest_indexed(self) -> tuple[int, int]:
        last = None if self._time_index is not None else read_last_time_entry(self._disk, self.stem)
        if last is None:
            last = self.time_index.last
            if self._largest is not None:
                return self._largest  # the indexes were just rebuilt, and end before this batch
        return (NO_TIMESTAMP, self.base_offset) if last is None else (last[0], last[1] + self.base_offset)

    @property
    def largest_timestamp(self) -> int:
        return self.largest[0]

    @property
    def age_timestamp(self) -> int:
        """Retention measures age from here: the largest timestamp, or the file's modification time without any."""
        timestamp = self.largest[0]
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path(LOG_SUFFIX))

    @property
    def first_timestamp(self) -> int | None:
        """`segment.ms` is measured from here: the first batch's timestamp. None in an empty segment."""
        if self._first_timestamp is None and self._size:
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    @property
    def index_bytes(self) -> int:
        return max(self.index.size_bytes, self.time_index.size_bytes)

    def use_indexes(self, index: OffsetIndex, time_index: TimeIndex, largest: tuple[int, int]) -> None:
        self._index, self._time_index, self._largest, self._since_index = index, time_index, largest, 0

    def rebuild_indexes(self, index_interval_bytes: int = _DEFAULT_INDEX_INTERVAL_BYTES) -> None:
        """Rebuild both indexes from the headers of all batches."""
        self.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, self.base_offset))
        try:
            for position, header in self.headers():
                self.add_to_indexes(position, header, index_interval_bytes)
        except BaseException:  # incomplete indexes must not be used
            self._index = self._time_index = self._largest = None
            raise

    def _load_indexes(self) -> None:
        found = read_indexes(self._disk, self.stem, self._size)
        if found is None:
            self.rebuild_indexes()
        else:
            self._index, self._time_index = found

    def write_indexes(self, extra_suffix: str = "") -> list[str]:
        """Write both indexes, not yet durably. Returns the paths, for the caller to sync. May be repeated."""
        index = self.index
        timestamp, offset = self.largest
        self.time_index.add(timestamp, offset - self.base_offset)
        return write_indexes(self._disk, self.stem, index, self.time_index, extra_suffix)

    # --- changing ----------------------------------------------------------------------------------------------------

    def truncate(self, position: int) -> None:
        """Cut at a batch boundary. The caller must sync the file before it appends."""
        self.cut(position)
        self.rebuild_indexes()

    def cut(self, position: int) -> None:
        """Cut the file. The indexes must not have entries from `position` on."""
        self.file.truncate(position)
        self._size = position

    def sync(self) -> None:
        """Make the content durable. A released file is opened for this call only. May run on another thread."""
        held = self._file
        if held is not None:
            held.sync()
            return
        with closing(self._disk.open(self.path(LOG_SUFFIX))) as file:
            file.sync()

    def release(self) -> None:
        """Release the file and the indexes of a sealed segment. A slice that is being sent keeps the file open."""
        self._file = self._index = self._time_index = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
