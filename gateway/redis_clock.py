"""The clock of all sales is Redis TIME. Between two readings it is carried on by this machine's monotonic clock.

So the wall clock of a gateway does not matter, and the carried time runs late by at most one round trip, never early.
"""

from __future__ import annotations

import time

_offset_ms = 0.0


def synchronize(redis_time: tuple[int, int], received_at: float) -> None:
    """`redis_time`: seconds and microseconds, as TIME returns them; `received_at`: monotonic seconds."""
    global _offset_ms
    seconds, microseconds = redis_time
    _offset_ms = seconds * 1000 + microseconds // 1000 - received_at * 1000


def now_ms() -> int:
    """Valid after the first snapshot of sales, which synchronizes the clock."""
    return int(_offset_ms + time.monotonic() * 1000)
