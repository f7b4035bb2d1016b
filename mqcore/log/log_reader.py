"""Store: finds the range of a segment file that a read returns.

Own rule: a consumer usually continues where its last read ended, so the ends of recent slices are remembered. Any other
read looks up the sparse index and walks over the headers from there.
"""

from __future__ import annotations

from typing import Final

from mqcore.log.segment import Segment
from mqcore.log.segments import Segments
from mqcore.log.slices import Slice

REMEMBERED_POSITIONS_MAX: Final = 128  # of one log; enough for the consumers of one partition


class LogReader:
    """The read side of one log, shared by all its readers."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}  # offset → where its batch is, or will be appended

    def forget(self) -> None:
        """Forget remembered positions, because segments were cut, removed or replaced."""
        self._positions.clear()

    def read(self, offset: int, max_bytes: int, limit: int, log_end: int, at_least_one: bool) -> Slice | None:
        found = self._positions.get(offset)
        if found is None or found[1] >= found[0].size:
            found = self._locate(offset)
            if found is None:
                return None
        segment, position = found
        length = self._end_below(segment, limit, log_end) - position
        if length <= 0:
            return None
        if length > max_bytes:
            first = segment.header_at(position).size
            if first > segment.size - position:
                raise segment.corrupt(
                    position, f"batch of {first} bytes, but the file has only {segment.size - position}"
                )
            if first > max_bytes and not at_least_one:
                return None
            length = max(first, max_bytes)
        if segment is not self._segments.items[-1]:
            self._segments.note_open(segment)
        return Slice(segment.file, position, length)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Where the first batch that ends above `offset` is."""
        index = self._segments.index_of(offset)
        assert index >= 0, f"offset {offset} is below the first segment"
        for segment in self._segments.items[index:]:
            position = segment.locate(offset) if offset > segment.base_offset else 0
            if position < segment.size:
                return segment, position
        return None

    def _end_below(self, segment: Segment, limit: int, log_end: int) -> int:
        """Where the last batch entirely below `limit` ends. Remembered, because the next read starts there."""
        if segment is self._segments.items[-1]:
            end = log_end
        else:
            end = self._segments.end_of(self._segments.index_of(segment.base_offset), log_end)
        if limit >= end:
            position = segment.size
        else:
            found = self._positions.get(limit)
            position = found[1] if found is not None and found[0] is segment else segment.locate(limit)
        if len(self._positions) >= REMEMBERED_POSITIONS_MAX:
            del self._positions[next(iter(self._positions))]
        self._positions[min(limit, end)] = (segment, position)
        return position
