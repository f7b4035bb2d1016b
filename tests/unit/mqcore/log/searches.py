"""Searches by time that run all steps at once."""

from __future__ import annotations

from mqcore.log.log import Log
from mqcore.log.times import TimedOffset, run_search


def offset_for_time(log: Log, timestamp: int, *, limit: int) -> TimedOffset | None:
    return run_search(log.search_time(timestamp, limit=limit))


def max_timestamp(log: Log, *, limit: int) -> TimedOffset | None:
    return run_search(log.search_max_timestamp(limit=limit))
