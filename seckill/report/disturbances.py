"""Pure: what disturbed a run, as the supervisor noticed it or as the books show it, planned or not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from seckill.consistency.evidence import Evidence

ENDS = {"died": "up", "stopped": "up", "frozen": "thawed"}
"""What each observation lasts until, for the same process."""
STALL_MS = 5_000
"""Nothing is decided for so long although requests wait: whoever decides did not run."""
AROUND_MS = 5_000
"""A planned fault explains what is observed so shortly before or after it."""


class Disturbance(NamedTuple):
    """`until_ms` None: it was not over when the report was taken. `is_planned`: an injected fault explains it."""

    at_ms: int
    until_ms: int | None
    what: str
    is_planned: bool

    def __str__(self) -> str:
        lasted = "" if self.until_ms is None else f" for {(self.until_ms - self.at_ms) / 1000:.1f} s"
        return f"{self.what}{lasted}" + (" (planned)" if self.is_planned else " (observed, not planned)")


def disturbances(evidence: Evidence) -> list[Disturbance]:
    """In order of time. A stop at the end of a stack's life is none: then nothing is noted any more."""
    found = [*_of_processes(evidence), *_stalls(evidence)]
    return sorted(found, key=lambda each: each.at_ms)


def unplanned(evidence: Evidence) -> list[Disturbance]:
    return [each for each in disturbances(evidence) if not each.is_planned]


def _of_processes(evidence: Evidence) -> Iterator[Disturbance]:
    lines = sorted(evidence.observed, key=lambda line: int(line["at_ms"]))
    for number, line in enumerate(lines):
        ended = ENDS.get(line["what"])
        if ended is None:
            continue
        later = (other for other in lines[number + 1 :] if other["name"] == line["name"])
        until_ms = next((int(other["at_ms"]) for other in later if other["what"] == ended), None)
        code = line.get("code")
        how = f" (signal {-code})" if isinstance(code, int) and code < 0 else "" if code is None else f" (exit {code})"
        yield _disturbance(evidence, int(line["at_ms"]), until_ms, f"{line['name']} {line['what']}{how}")


def _stalls(evidence: Evidence) -> Iterator[Disturbance]:
    """As any supervisor's, or nobody's, process may have been paused: the books show that nothing was decided."""
    rows = sorted(
        (row.decided_at_ms, said.timestamp_ms)
        for row in evidence.decided
        if (said := evidence.requested_at.get(row.place)) is not None and row.place not in evidence.dead_requests
    )
    for (before_ms, _), (after_ms, entered_ms) in pairwise(rows):
        since_ms = max(before_ms, entered_ms)
        if after_ms - since_ms >= STALL_MS:
            yield _disturbance(evidence, since_ms, after_ms, "nothing was decided, while requests waited")


def _disturbance(evidence: Evidence, at_ms: int, until_ms: int | None, what: str) -> Disturbance:
    end_ms = at_ms if until_ms is None else until_ms
    is_planned = any(
        int(fault.get("at_ms", 0)) - AROUND_MS <= end_ms and at_ms <= int(fault.get("until_ms", at_ms)) + AROUND_MS
        for fault in evidence.injected
    )
    return Disturbance(at_ms, until_ms, what, is_planned)
