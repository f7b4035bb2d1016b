"""Machine: which of the oldest segments have expired.

Own rule: only whole segments expire, from the oldest on, and only those that lie entirely below the high watermark.
"""

from __future__ import annotations

from mqcore.log.topic_config import LogConfig


class RetentionCheck:
    """Checks the segments of one log, from the oldest on. The caller stops at the first that has not expired."""

    def __init__(self, config: LogConfig, log_bytes: int, start_offset: int, limit: int, now_ms: int) -> None:
        is_limited = config.delete and config.retention_bytes >= 0
        self._surplus_bytes = log_bytes - config.retention_bytes if is_limited else 0
        self._retention_ms = config.retention_ms if config.delete else -1
        self._start_offset = start_offset
        self._limit = limit
        self._now_ms = now_ms

    def is_removable(self, size: int, end_offset: int) -> bool:
        return size > 0 and end_offset <= self._limit

    def is_deleted_or_surplus(self, size: int, end_offset: int) -> bool:
        """A client deleted all its records, or the log exceeds `retention.bytes` even without it."""
        return end_offset <= self._start_offset or self._surplus_bytes >= size

    @property
    def needs_timestamp(self) -> bool:
        return self._retention_ms >= 0

    def is_too_old(self, newest_timestamp: int) -> bool:
        return 0 <= self._retention_ms < self._now_ms - newest_timestamp

    def count_removed(self, size: int) -> None:
        self._surplus_bytes -= size
