"""Find outages: times in which every purchase was refused for technical reasons without a fault that explains it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from seckill.report.disturbances import WATCHER, find_disturbances
from seckill.report.evidence import Evidence
from seckill.report.rows import Attempt, OtherCall

OUTAGE_MS = 30_000
AFTERMATH_MS = 120_000
"""A fault explains refusals for this long afterwards, because what it hit has to restart and catch up."""
EXPECTED = frozenset({"sale-paused", "queue-moving"})
"""Refusals that are intended."""


class Outage(NamedTuple):
    from_ms: int
    until_ms: int
    answers: int
    example: str

    def __str__(self) -> str:
        seconds = (self.until_ms - self.from_ms) / 1000
        such = f"{self.answers} refusals such as {self.example}"
        return f"no purchase was accepted for {seconds:.0f} s ({such}), and no fault explains it"


def is_outage(call: Attempt | OtherCall) -> bool:
    """Whether there was no answer, or one that says nothing about the sale."""
    return call.status == 0 or call.status >= 500


def find_outages(evidence: Evidence) -> Iterator[Outage]:
    """Runs of such answers without any other answer in between."""
    faults = [_span(line) for line in evidence.injected_faults]
    seen = [each for each in find_disturbances(evidence) if each.process != WATCHER]
    faults += [(each.at_ms, each.until_ms or each.at_ms) for each in seen]
    run: list[Attempt] = []
    last = (Attempt(evidence.taken_at_ms, 0, "", "", 0, 0, 200, None, None, None),)
    for attempt in (*sorted(evidence.attempts, key=_end), *last):
        if is_outage(attempt) and attempt.problem not in EXPECTED:
            run.append(attempt)
            continue
        if run and (found := _outage(run, faults)) is not None:
            yield found
        run.clear()


def _span(fault: Mapping[str, Any]) -> tuple[int, int]:
    """Start and end. A fault without times may have happened at any time."""
    began = int(fault.get("at_ms", 0))
    return began, int(fault.get("until_ms", began or sys.maxsize - AFTERMATH_MS))


def _outage(run: list[Attempt], faults: list[tuple[int, int]]) -> Outage | None:
    from_ms, until_ms = run[0].at_ms, _end(run[-1])
    is_explained = any(began <= until_ms and from_ms <= ended + AFTERMATH_MS for began, ended in faults)
    if until_ms - from_ms < OUTAGE_MS or is_explained:
        return None
    return Outage(from_ms, until_ms, len(run), run[-1].problem or f"status {run[-1].status}")


def _end(attempt: Attempt) -> int:
    return attempt.at_ms + attempt.took_ms
