"""Machine: which of the oldest segments are no longer wanted.

Own rule: only whole segments from the oldest on, and only if all of them lies below the high watermark.
"""

from __future__ import annotations

from mqcore.log.config import LogConfig
from mqcore.log.segment import Segment
from mqcore.log.segments import Segments


def due_segments(
    segments: Segments, config: LogConfig, now_ms: int, start_offset: int, end_offset: int, limit: int
) -> int:
    """How many, from the oldest; all of them if even the active one is due, which must then roll first."""
    surplus = segments.size_bytes - config.retention_bytes if config.delete and config.retention_bytes >= 0 else 0
    count = 0
    for index, segment in enumerate(segments.items):
        end = segments.end_of(index, end_offset)
        if end > limit or segment.size == 0:
            break
        deleted = end <= start_offset
        too_large = surplus >= segment.size
        if not (deleted or too_large or _is_too_old(segment, config, now_ms)):
            break
        surplus -= segment.size
        count += 1
    return count


def _is_too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """Looks into the segment's index only if the age matters."""
    return config.delete and 0 <= config.retention_ms < now_ms - segment.age_timestamp
