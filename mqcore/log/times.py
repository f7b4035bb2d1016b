"""Store: from timestamps to offsets (KIP-79, KIP-734).

Own rule: the time index leads to the neighbourhood, headers to the batch; only that one batch is opened. A search may
have to read many segments or headers, so it goes in steps: the caller runs as many of them in one turn of the event
loop as it likes, and the log may change in between.
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


Search = Generator[None, None, TimedOffset | None]
"""Yields after each step, and returns what it has found."""


def finish(search: Search) -> TimedOffset | None:
    """All steps at once."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: TimedOffset | None = end.value
            return found


def offset_for_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> TimedOffset | None:
    """The first record in [start, limit) that is not older than `timestamp`."""
    return finish(search_time(items, timestamp, start, limit))


def max_timestamp(items: Sequence[Segment], start: int, limit: int) -> TimedOffset | None:
    """The first of the records in [start, limit) with the largest timestamp."""
    return finish(search_max_timestamp(items, start, limit))


def search_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> Search:
    return _restarted(items, lambda: _search_time(items, timestamp, start, limit))


def search_max_timestamp(items: Sequence[Segment], start: int, limit: int) -> Search:
    return _restarted(items, lambda: _search_max_timestamp(items, start, limit))


def _restarted(items: Sequence[Segment], search: Callable[[], Search]) -> Search:
    """From the start again if retention or compaction took a segment away while it was read."""
    while True:
        before = list(items)
        try:
            return (yield from search())
        except (FileNotFoundError, CorruptLog):
            if before == list(items):
                raise


def _search_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> Search:
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


def _search_max_timestamp(items: Sequence[Segment], start: int, limit: int) -> Search:
    """The segment with the largest timestamp first: usually the only one that is read."""
    segments = []
    for segment in list(items):
        yield
        if segment.base_offset >= limit:
            break
        if segment.size:
            segments.append((-segment.largest_timestamp, segment.base_offset, segment))
    best: tuple[int, int, Segment, int, BatchHeader] | None = None  # it begins like `segments`, the least wins
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
    """Batches of a segment within [start, limit), the one with its largest timestamp there among them.

    If the largest of the whole segment lies beyond the limit (it is not durable yet, perhaps), the time index knows the
    largest up to the last entry of the offset index; behind that entry all batches are candidates.
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
        yield from _one(segment, segment.locate(last_offset))
    for position, header in segment.headers(behind):
        if header.last_offset >= limit:
            return
        yield position, header


def _one(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
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
    except BadBatch:  # a producer's nonsense under a good CRC: the batch is as near as we can get
        return TimedOffset(header.max_timestamp, max(start, header.base_offset), header.leader_epoch)
    return None
