"""Helpers for tests of compaction: a log of many small segments, a run over it, and what is left."""

from __future__ import annotations

from mqcore.disk.memory import MemoryDisk
from mqcore.log.compaction import Compactor
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.wire.records import Record, read_records
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored

CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=500,
    index_interval_bytes=50,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


def log_of(*entries: tuple[str, str | None], config: LogConfig = CONFIG, disk: MemoryDisk | None = None) -> Log:
    """A log with one batch per (key, value), all in sealed segments."""
    log = open_log(disk or MemoryDisk(), config)
    for key, value in entries:
        append(log, batch([None if value is None else value.encode()], keys=[key.encode()]))
    log.roll(0)
    return log


def compact(log: Log, *, now_ms: int = 0, first_dirty: int = 0, limit: int | None = None, keys_max: int = 1000) -> int:
    limit = log.end_offset if limit is None else limit
    compactor = Compactor(log._disk, log, first_dirty=first_dirty, limit=limit, now_ms=now_ms, keys_max=keys_max)
    compactor.run()
    return compactor.cleaned_to


def records(log: Log) -> list[Record]:
    return [record for data in stored(log) for record in read_records(data)]


def left(log: Log) -> list[tuple[int, str, str | None]]:
    return [(r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode()) for r in records(log)]
