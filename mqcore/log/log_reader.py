"""Store: from an offset to a range of a segment file.

Own rule: readers go on where they stopped, so the ends of slices are remembered; everything else is a lookup in the
sparse index and a walk over the headers behind it.
"""

from __future__ import annotations

from typing import Final

from mqcore.log.segment import Segment, Slice
from mqcore.log.segments import Segments

_PLACES: Final = 128


class Reader:
    """The read side of one log, for all its readers."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}  # offset → where its batch stands, or will stand

    def forget(self) -> None:
        """Segments were cut, removed or replaced."""
        self._places.clear()

    def read(self, offset: int, max_bytes: int, limit: int, log_end: int, at_least_one: bool) -> Slice | None:
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size:
            place = self._locate(offset)
            if place is None:
                return None
        segment, position = place
        length = self._end_below(segment, limit, log_end) - position
        if length <= 0:
            return None
        if length > max_bytes:
            first = segment.header_at(position).size
            if first > segment.size - position:
                raise segment.corrupt(position, f"batch of {first} bytes, only {segment.size - position} are there")
            if first > max_bytes and not at_least_one:
                return None
            length = max(first, max_bytes)
        if segment is not self._segments.items[-1]:
            self._segments.keep_open(segment)
        return Slice(segment.file, position, length)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Where the first batch that ends above `offset` stands."""
        index = self._segments.index_of(offset)
        assert index >= 0, f"offset {offset} is below the first segment"
        for segment in self._segments.items[index:]:
            position = segment.locate(offset) if offset > segment.base_offset else 0
            if position < segment.size:
                return segment, position
        return None

    def _end_below(self, segment: Segment, limit: int, log_end: int) -> int:
        """Where the batches of a segment that lie wholly below `limit` end; remembered, for there a reader goes on."""
        if segment is self._segments.items[-1]:
            end = log_end
        else:
            end = self._segments.end_of(self._segments.index_of(segment.base_offset), log_end)
        if limit >= end:
            position = segment.size
        else:
            place = self._places.get(limit)
            position = place[1] if place is not None and place[0] is segment else segment.locate(limit)
        if len(self._places) >= _PLACES:
            del self._places[next(iter(self._places))]
        self._places[min(limit, end)] = (segment, position)
        return position
