"""Store: one segment, a file of batches with its two sparse indexes.

Own rule: only headers are read, 27 bytes of each, and only from the nearest index entry on. The file of a sealed
segment is opened when it is first read and let go when nobody holds it; so are its indexes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from mqcore.disk.port import Buffer, Disk, File
from mqcore.log.errors import CorruptLog
from mqcore.log.index import OffsetIndex, TimeIndex, read_last_entry
from mqcore.wire.batches import HEADER_BYTES, LENGTH_OVERHEAD, MINIMUM_LENGTH, BadBatch, BatchHeader, read_header

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SUFFIXES: Final = (LOG, INDEX, TIME_INDEX)
NO_TIMESTAMP: Final = -1

_MOST_RELATIVE: Final = 2**31 - 1
_SPAN = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_STEP: Final = 4096
_WALK_STEP: Final = 64 << 10


def segment_name(base_offset: int, suffix: str = LOG) -> str:
    return f"{base_offset:020d}{suffix}"


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of one segment file, read lazily. It holds the file open, so its bytes outlive the segment's removal."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)

    def read_part(self, start: int, length: int) -> bytes:
        """`length` bytes from `start` within the slice: what a socket has room for."""
        return self.file.read(self.position + start, length)


class Segment:
    """Batches from `base_offset` on. The last segment of a log is the active one: only it is appended to."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, *, file: File | None = None) -> None:
        self.base_offset = base_offset
        self.directory = directory
        self._disk = disk
        self._file = file
        self._size = file.size if file is not None else disk.size(self.path(LOG))
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._largest: tuple[int, int] | None = None  # largest timestamp, last offset of its batch
        self._first_timestamp: int | None = None
        self._since_index = 0

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int) -> Segment:
        """A new, empty, active segment. Leftovers of an earlier attempt are emptied."""
        file = disk.open(f"{directory}/{segment_name(base_offset)}", create=True)
        if file.size:
            file.truncate(0)
        segment = cls(disk, directory, base_offset, file=file)
        segment.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, base_offset))
        return segment

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{segment_name(self.base_offset, suffix)}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(LOG))
        return self._file

    @property
    def size(self) -> int:
        return self._size

    def append(self, batches: Buffer, headers: Sequence[BatchHeader], index_interval_bytes: int) -> None:
        position, file = self._size, self.file
        file.append((batches,))
        self._size = file.size
        for header in headers:
            self.note(position, header, index_interval_bytes)
            position += header.length + LENGTH_OVERHEAD

    def note(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Take a batch that is in the file into the indexes; called for all of them in order."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.largest_timestamp and header.records_count:
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
        """Position of the first batch that ends at or above `offset`; the size of the file if there is none."""
        indexed, position = self.index.floor(offset - self.base_offset)
        file, size = self.file, self._size
        while position < size:
            chunk = file.read(position, min(_STEP, size - position))
            at, last = 0, len(chunk) - _SPAN.size
            if last < 0:
                raise self.corrupt(position, "too few bytes for a batch header")
            while at <= last:
                span: tuple[int, int, int] = _SPAN.unpack_from(chunk, at)
                base_offset, length, delta = span
                if indexed >= 0:
                    if base_offset + delta != self.base_offset + indexed:
                        self.rebuild_indexes()  # it is the index of some other log
                        return self.locate(offset)
                    indexed = -1
                if length < MINIMUM_LENGTH or delta < 0:
                    raise self.corrupt(position + at, "not a batch")
                missing = offset - base_offset - delta
                if missing <= 0:
                    return position + at
                at += length + LENGTH_OVERHEAD
                if missing == 1:  # it begins right behind this batch: no need to look
                    return position + at
            position += at
        return size

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch from `position` up to `end`; `CorruptLog` where there is none."""
        end = self._size if end is None else end
        file = self.file
        chunk, start = b"", position
        while position < end:
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                chunk, start, at = file.read(position, _WALK_STEP), position, 0
            try:
                header = read_header(chunk, at)
            except BadBatch as error:
                raise self.corrupt(position, str(error)) from error
            yield position, header
            position += header.length + LENGTH_OVERHEAD

    def last_header(self) -> BatchHeader | None:
        """Of the last batch, from the last index entry on."""
        indexed, position = self.index.floor(_MOST_RELATIVE)
        if indexed >= 0 and not self.is_indexed_rightly(indexed, position):
            self.rebuild_indexes()
            _, position = self.index.floor(_MOST_RELATIVE)
        last = None
        for _, header in self.headers(position):
            last = header
        return last

    def is_indexed_rightly(self, relative_offset: int, position: int) -> bool:
        """Does the batch at `position` end where an index entry says?"""
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
        """(largest timestamp, last offset of the batch that has it); timestamp -1 if no batch has one."""
        if self._largest is None:
            self._largest = self._largest_indexed()
        return self._largest

    def _largest_indexed(self) -> tuple[int, int]:
        last = None if self._time_index is not None else read_last_entry(self._disk, self.path(TIME_INDEX))
        if last is None:
            last = self.time_index.last
            if self._largest is not None:
                return self._largest  # the indexes had to be rebuilt, and end before it
        return (NO_TIMESTAMP, self.base_offset) if last is None else (last[0], last[1] + self.base_offset)

    @property
    def largest_timestamp(self) -> int:
        return self.largest[0]

    @property
    def age_timestamp(self) -> int:
        """What retention counts from: the largest timestamp, or without any the last change of the file."""
        timestamp = self.largest[0]
        return timestamp if timestamp >= 0 else self._disk.modified_ms(self.path(LOG))

    @property
    def first_timestamp(self) -> int | None:
        """Timestamp of the first batch, from which segment.ms is counted; None in an empty segment."""
        if self._first_timestamp is None and self._size:
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    def use_indexes(self, index: OffsetIndex, time_index: TimeIndex, largest: tuple[int, int]) -> None:
        self._index, self._time_index, self._largest, self._since_index = index, time_index, largest, 0

    def rebuild_indexes(self, index_interval_bytes: int = _STEP) -> None:
        """From the headers of all batches."""
        self.use_indexes(OffsetIndex(), TimeIndex(), (NO_TIMESTAMP, self.base_offset))
        try:
            for position, header in self.headers():
                self.note(position, header, index_interval_bytes)
        except BaseException:  # half of them would be believed
            self._index = self._time_index = self._largest = None
            raise

    def _load_indexes(self) -> None:
        """From their files if these look right, else from the batches."""
        index = time_index = None
        try:
            index = OffsetIndex.decode(self._disk.read_whole(self.path(INDEX)), self._size)
            time_index = TimeIndex.decode(self._disk.read_whole(self.path(TIME_INDEX)))
        except FileNotFoundError:
            pass
        if index is None or time_index is None or (self._size and not len(time_index)):
            self.rebuild_indexes()
        else:
            self._index, self._time_index = index, time_index

    def write_indexes(self, beside: str = "") -> list[str]:
        """Seal: both files as they stand, not yet durable; their paths, for the caller to sync. May be repeated."""
        index = self.index
        timestamp, offset = self.largest
        self.time_index.add(timestamp, offset - self.base_offset)
        written = []
        for suffix, content in ((INDEX + beside, index.encode()), (TIME_INDEX + beside, self.time_index.encode())):
            with closing(self._disk.open(self.path(suffix), create=True)) as file:
                file.truncate(0)
                file.append((content,))
            written.append(self.path(suffix))
        return written

    # --- changing ----------------------------------------------------------------------------------------------------

    def truncate(self, position: int) -> None:
        """Cut at a batch boundary. The caller syncs the file before anything else is appended."""
        self.cut(position)
        self.rebuild_indexes()

    def cut(self, position: int) -> None:
        """Cut only; the indexes hold nothing from there on."""
        self.file.truncate(position)
        self._size = position

    def sync(self) -> None:
        """Make the content durable. A released file is opened only meanwhile. May run on another thread."""
        held = self._file
        if held is not None:
            held.sync()
            return
        with closing(self._disk.open(self.path(LOG))) as file:
            file.sync()

    def release(self) -> None:
        """Let go of file and indexes of a sealed segment; who still reads holds the file himself."""
        self._file = self._index = self._time_index = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
