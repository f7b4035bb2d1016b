"""Plain functions: when something happened, as spans with pauses between them.

A rush takes twenty seconds and an unpaid order expires hours later. One axis over both would show the rush as one bin.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

PAUSE_MS = 60_000
PAUSE_STEPS = 20
SPANS_MAX = 6


class Span(NamedTuple):
    """From the step before the first event to the end of the last event's step."""

    from_ms: int
    to_ms: int


def spans(times: Iterable[int], step_ms: int) -> list[Span]:
    """Split at pauses; at most SPANS_MAX of them, so only the longest pauses split when there are many."""
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


def lasted(milliseconds: int) -> str:
    """For the mark at a break: the two largest units."""
    seconds = round(milliseconds / 1000)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"
