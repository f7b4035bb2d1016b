"""Shell over a store: what a follower does to its log, once `FollowerState` has decided it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, assert_never

from mqcore.identity import Millis, Offset
from mqcore.partitions.follower import Append, AwaitMetadata, Back, Ignore, StartAt, Step, Truncate

if TYPE_CHECKING:
    from mqcore.partitions.partition import Partition


def carry_out(partition: Partition, step: Step, now_ms: Millis) -> None:
    """Raises `LogFault` if the log cannot be used any more. After an `OSError` nothing has changed."""
    match step:
        case Append():
            _append(partition, step, now_ms)
        case Truncate(end):
            _cut(partition, end, is_complete=False)
        case StartAt(log_start):
            _cut(partition, log_start, is_complete=True)
        case Back() | AwaitMetadata() | Ignore():
            pass
        case _:
            assert_never(step)


def _append(partition: Partition, step: Append, now_ms: Millis) -> None:
    if step.restart_at is not None:
        _cut(partition, step.restart_at, is_complete=True)
    if step.headers:
        refusal = partition.appender.append_fetched(step.records, step.headers, now_ms)
        if refusal is not None:
            raise OSError(errno.ENOSPC, refusal.message)
    if step.high_watermark > partition.high_watermark:
        partition.high_watermark = step.high_watermark
        partition.watchers.notify()
    partition.log.advance_start(step.log_start)


def _cut(partition: Partition, offset: Offset, *, is_complete: bool) -> None:
    """The checkpoints go first: they would claim that what is written here next is durable, compacted or committed."""
    log = partition.log
    kept = min(log.start_offset, offset) if is_complete else offset
    partition.before_cut(kept)
    if log.recovery_point > kept:
        log.recovery_point = 0
    partition.cuts += 1
    if is_complete:
        log.truncate_fully(offset)
    else:
        log.truncate_to(offset)
    end = log.end_offset
    partition.high_watermark = Offset(min(partition.high_watermark, end))
    partition.cleaned_to = min(partition.cleaned_to, kept, end)
