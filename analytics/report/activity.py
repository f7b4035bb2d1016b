"""Machine: split a time axis into spans of activity with pauses between them.

A rush takes twenty seconds, but an unpaid order expires hours later. On one axis over both the rush would be one bin.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

PAUSE_MS = 60_000
PAUSE_STEPS = 20
SPANS_MAX = 6


class Span(NamedTuple):
    """From one step before the first event to the end of the last event's step."""

    from_ms: int
    to_ms: int


def spans(times: Iterable[int], step_ms: int) -> list[Span]:
    """Split at pauses. At most SPANS_MAX spans, so with many pauses only the longest ones split."""
    ordered = sorted(set(times))
    pause_ms = max(PAUSE_MS, PAUSE_STEPS * step_ms)
    gaps = [(after - before, after) for before, after in pairwise(ordered)]
    longest = sorted((gap for gap in gaps if gap[0] > pause_ms), reverse=True)[: SPANS_MAX - 1]
    starts = sorted(after for _, after in longest)
    found = []
    for first, end in zip([None, *starts], [*starts, None], strict=True):
        mine = [at for at in ordered if (first is None or at >= first) and (end is None or at < end)]
        if mine:
            found.append(Span(mine[0] - step_ms, mine[-1] + step_ms))
    return found


def duration_text(milliseconds: int) -> str:
    """In its two largest units."""
    seconds = round(milliseconds / 1000)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"
