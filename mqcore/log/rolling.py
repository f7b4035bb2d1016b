"""Machine: when a segment is full.

Own rule: age is counted between timestamps of batches, as Kafka does it, so that a log copied later rolls where the
original did; only a segment without timestamps goes by the clock.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from mqcore.log.config import LogConfig
from mqcore.log.index import TIME_ENTRY_BYTES
from mqcore.log.segment import Segment
from mqcore.wire.batches import BatchHeader

MOST_RELATIVE: Final = 2**31 - 1  # offsets in the indexes are relative to the segment's base, in 32 bits


def must_roll(segment: Segment, config: LogConfig, size: int, last: BatchHeader, age_ms: int) -> bool:
    """Is there no room for `size` more bytes that end with the batch `last`? `age_ms` is the segment's by the clock."""
    if segment.size + size > config.segment_bytes:
        return True
    if last.base_offset + last.last_offset_delta - segment.base_offset > MOST_RELATIVE:
        return True
    if max(segment.index.size_bytes, segment.time_index.size_bytes) + TIME_ENTRY_BYTES > config.segment_index_bytes:
        return True
    first = segment.first_timestamp
    if first is not None and first >= 0:
        age_ms = last.max_timestamp - first
    return age_ms > config.segment_ms - _jitter_ms(segment, config)


def _jitter_ms(segment: Segment, config: LogConfig) -> int:
    """Spread by the segment's name and not by chance: the same log rolls at the same place again."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(segment.path("").encode()) % most if most else 0
