"""Store: from timestamps to offsets (KIP-79, KIP-734).

Own rule: the time index leads to the neighbourhood, headers to the batch; only that one batch is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mqcore.log.segment import Segment
from mqcore.wire.batches import LOG_APPEND_TIME, BadBatch, BatchHeader
from mqcore.wire.records import iterate_records


class TimedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_time(items: Sequence[Segment], timestamp: int, start: int, limit: int) -> TimedOffset | None:
    """The first record in [start, limit) that is not older than `timestamp`."""
    for segment in items:
        if segment.base_offset >= limit:
            return None
        if not segment.size or segment.largest_timestamp < timestamp:
            continue
        from_offset = max(start, segment.base_offset + segment.time_index.floor(timestamp))
        for position, header in segment.headers(segment.locate(from_offset)):
            if header.base_offset >= limit:
                return None
            if header.max_timestamp >= timestamp:
                found = _first_record(segment, position, header, timestamp, start, limit)
                if found is not None:
                    return found
    return None


def max_timestamp(items: Sequence[Segment], start: int, limit: int) -> TimedOffset | None:
    """The first of the records in [start, limit) with the largest timestamp."""
    best: tuple[int, Segment, int, BatchHeader] | None = None
    for segment in items:
        if segment.base_offset >= limit:
            break
        if not segment.size or (best is not None and segment.largest_timestamp <= best[0]):
            continue
        largest, last_offset = segment.largest
        known = start <= last_offset < limit
        for position, header in segment.headers(segment.locate(last_offset if known else start)):
            if header.last_offset >= limit:
                break
            if header.records_count and (best is None or header.max_timestamp > best[0]):
                best = header.max_timestamp, segment, position, header
            if known:
                break
    if best is None:
        return None
    largest, segment, position, header = best
    return _first_record(segment, position, header, largest, start, limit)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int, limit: int
) -> TimedOffset | None:
    if header.attributes & LOG_APPEND_TIME:
        offset = max(start, header.base_offset)
        return TimedOffset(header.max_timestamp, offset, header.leader_epoch) if offset < limit else None
    try:
        for record in iterate_records(segment.file.read(position, header.size), header):
            if record.timestamp >= timestamp and start <= record.offset < limit:
                return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    except BadBatch:  # a producer's nonsense under a good CRC: the batch is as near as we can get
        return TimedOffset(header.max_timestamp, max(start, header.base_offset), header.leader_epoch)
    return None
