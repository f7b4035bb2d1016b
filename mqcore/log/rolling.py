"""Machine: when the active segment is full.

Own rule: like Kafka, measure age between timestamps of batches, so that a replica of the log rolls at the same offset
as the original. Only a segment without timestamps is measured by the clock.
"""

from __future__ import annotations

from zlib import crc32

from mqcore.log.index import RELATIVE_OFFSET_MAX, TIME_ENTRY_BYTES
from mqcore.log.topic_config import LogConfig


def segment_age_ms(first_timestamp: int | None, last_timestamp: int, age_by_clock_ms: int) -> int:
    return last_timestamp - first_timestamp if first_timestamp is not None and first_timestamp >= 0 else age_by_clock_ms


def must_roll(
    config: LogConfig, size_after: int, relative_offset_after: int, index_bytes: int, age_ms: int, segment_path: str
) -> bool:
    """Whether an append would exceed a limit of the segment. `…_after` describes the segment with the new batches."""
    if size_after > config.segment_bytes or relative_offset_after > RELATIVE_OFFSET_MAX:
        return True
    if index_bytes + TIME_ENTRY_BYTES > config.segment_index_bytes:
        return True
    if age_ms <= config.segment_ms - config.segment_jitter_ms:
        return False  # young enough with any jitter
    return age_ms > config.segment_ms - _jitter_ms(config, segment_path)


def _jitter_ms(config: LogConfig, segment_path: str) -> int:
    """Derived from the path and not random, so that the same log rolls at the same offset again."""
    jitter_ms_max = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(segment_path.encode()) % jitter_ms_max if jitter_ms_max else 0
