"""Store: finds the offset for a timestamp (KIP-79, KIP-734).

Own rule: the time index leads near the batch, headers lead to the batch, and only that batch is decompressed. A search
may read many segments or headers, so it is a generator of short steps: the caller spreads them over turns of the event
loop, and the log may change between two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, NamedTuple

from mqcore.log.errors import CorruptLog
from mqcore.log.segment import Segment
from mqcore.wire.batches import LOG_APPEND_TIME, BadBatch, BatchHeader
from mqcore.wire.records import iterate_records, request_limit

_HEADERS_A_STEP: Final = 500


class TimedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


TimeSearch = Generator[None, None, TimedOffset | None]
"""Yields after each step and returns the result."""


def run_search(search: TimeSearch) -> TimedOffset | None:
    """Run all steps at once."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: TimedOffset | None = end.value
            return found


def search_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> TimeSearch:
    return _restart_on_change(items, lambda: _search_time(items, timestamp, start, limit))


def search_max_timestamp(items: Sequence[Segment], start: int, limit: int) -> TimeSearch:
    return _restart_on_change(items, lambda: _search_max_timestamp(items, start, limit))


def _restart_on_change(items: Sequence[Segment], search: Callable[[], TimeSearch]) -> TimeSearch:
    """Start again if retention or compaction removed a segment during the search."""
    while True:
        before = list(items)
        try:
            return (yield from search())
        except (FileNotFoundError, CorruptLog):
            if before == list(items):
                raise


def _search_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> TimeSearch:
    for segment in list(items):
        yield
        if segment.base_offset >= limit:
            return None
        if not segment.size or segment.largest_timestamp < timestamp:
            continue
        from_offset = max(start, segment.base_offset + segment.time_index.floor(timestamp))
        for number, (position, header) in enumerate(segment.headers(segment.locate(from_offset)), 1):
            if header.base_offset >= limit:
                return None
            if header.max_timestamp >= timestamp:
                found = _first_record(segment, position, header, timestamp, start, limit)
                if found is not None:
                    return found
            if number % _HEADERS_A_STEP == 0:
                yield
    return None


def _search_max_timestamp(items: Sequence[Segment], start: int, limit: int) -> TimeSearch:
    """Begin with the segment that has the largest timestamp: usually no other one is read."""
    segments = []
    for segment in list(items):
        yield
        if segment.base_offset >= limit:
            break
        if segment.size:
            segments.append((-segment.largest_timestamp, segment.base_offset, segment))
    best: tuple[int, int, Segment, int, BatchHeader] | None = (
        None  # the least wins; it begins like an entry of `segments`
    )
    for bound in sorted(segments, key=lambda entry: entry[:2]):
        if best is not None and best[:2] <= bound[:2]:
            break
        segment = bound[2]
        for number, (position, header) in enumerate(_candidates(segment, start, limit), 1):
            found = -header.max_timestamp, header.base_offset
            if header.records_count and (best is None or found < best[:2]):
                best = *found, segment, position, header
            if number % _HEADERS_A_STEP == 0:
                yield
        yield
    if best is None:
        return None
    _, _, segment, position, header = best
    return _first_record(segment, position, header, header.max_timestamp, start, limit)


def _candidates(segment: Segment, start: int, limit: int) -> Iterator[tuple[int, BatchHeader]]:
    """Batches of a segment within [start, limit), including the one with the largest timestamp in that range.

    The batch with the segment's largest timestamp may lie at or above the limit, for example because it is not durable
    yet. Then the time index names the largest below its last entry, and every batch after that entry is a candidate.
    """
    last_offset: int | None = segment.largest[1]
    behind = segment.size
    if last_offset is not None and last_offset >= limit:
        reached = segment.time_index.reached_below(limit - segment.base_offset)
        last_offset = None if reached is None else segment.base_offset + reached[1]
        indexed = segment.index.floor(limit - 1 - segment.base_offset)[0]
        behind = 0 if indexed < 0 else segment.locate(segment.base_offset + indexed)
    if last_offset is None or last_offset < start:
        behind = segment.locate(start)
    else:
        yield from _batch_at(segment, segment.locate(last_offset))
    for position, header in segment.headers(behind):
        if header.last_offset >= limit:
            return
        yield position, header


def _batch_at(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
    if position < segment.size:
        yield position, segment.header_at(position)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int, limit: int
) -> TimedOffset | None:
    if header.attributes & LOG_APPEND_TIME:
        offset = max(start, header.base_offset)
        return TimedOffset(header.max_timestamp, offset, header.leader_epoch) if offset < limit else None
    try:
        batch = segment.file.read(position, header.size)
        for record in iterate_records(batch, header, limit_bytes=request_limit(header)):
            if record.timestamp >= timestamp and start <= record.offset < limit:
                return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    except BadBatch:  # the records are invalid although the CRC is right: answer with the batch, the nearest we can get
        return TimedOffset(header.max_timestamp, max(start, header.base_offset), header.leader_epoch)
    return None
