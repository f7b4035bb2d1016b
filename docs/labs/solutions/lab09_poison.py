"""Lab 9 · the poison message: three small tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seckill.messaging.records import PermanentFailure, TransientFailure

ATTEMPTS_MAX = 3


def process(batch: Sequence[int], handle: Callable[[Sequence[int]], None], bury: Callable[[int], None]) -> None:
    """Task 1: `handle` processes a batch, or raises ValueError and has no effect. Find the bad records by halving and
    `bury` them; everything else is handled once, in order. One bad record of a thousand costs about twenty calls."""
    if not batch:
        return
    try:
        handle(batch)
    except ValueError:
        if len(batch) == 1:
            bury(batch[0])
            return
        middle = len(batch) // 2
        process(batch[:middle], handle, bury)
        process(batch[middle:], handle, bury)


def is_dead(fault: Exception, attempts: int) -> bool:
    """Task 2: whether a record that has failed so often becomes a dead letter. A `PermanentFailure` does at once, a
    `TransientFailure` and a lost connection (ConnectionError) never, anything else after ATTEMPTS_MAX attempts."""
    if isinstance(fault, TransientFailure | ConnectionError):
        return False
    return isinstance(fault, PermanentFailure) or attempts >= ATTEMPTS_MAX


def is_circuit_open(outcomes: Sequence[bool], least: int, share_max: float) -> bool:
    """Task 3: after a bad deployment every record is poison. True if more than `share_max` of the latest records were
    dead (False in `outcomes`), but never with fewer than `least` outcomes, because one of two proves nothing."""
    if len(outcomes) < least:
        return False
    return outcomes.count(False) / len(outcomes) > share_max
