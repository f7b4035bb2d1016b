"""Machine: find what disturbed a run: from the supervisor's log, from what the report service noticed, and from gaps in
the decisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from seckill.report.evidence import Evidence
from seckill.report.rows import Silence

ENDS = {"died": "up", "stopped": "up", "frozen": "thawed"}
"""For each kind of event the one that ends it, for the same process."""
STALL_MS = 5_000
"""If requests wait this long without any decision, inventory was not running."""
AROUND_MS = 5_000
"""A planned fault explains disturbances this long before and after it. Likewise, two observations of one process that
are closer than this are one disturbance."""
TOGETHER_MS, MANY = 2_000, 5
"""So many silences that begin within this time are one disturbance."""
WATCHER = "reports"
"""The process that observes. The sale does not need it, so its own absence explains nothing."""
WHAT = {
    "silent": "gave no sign of life",
    "unanswered": "did not answer",
    "stopped": "stopped in order",
    "unwatched": "watched nothing",
}
ENDED = {"resumed": ", then continued", "restarted": ", then was started again"}


class Disturbance(NamedTuple):
    """`until_ms` is None if it was not over when the report was taken. `is_planned`: an injected fault explains it."""

    at_ms: int
    until_ms: int | None
    what: str
    is_planned: bool
    process: str = ""
    ended: str = ""

    def __str__(self) -> str:
        lasted = "" if self.until_ms is None else f" for {(self.until_ms - self.at_ms) / 1000:.1f} s"
        return f"{self.what}{lasted}{self.ended}" + (" (planned)" if self.is_planned else " (observed, not planned)")


def find_disturbances(evidence: Evidence) -> list[Disturbance]:
    """In order of time. The final stop of a stack is not among them, because the supervisor does not log it."""
    logged = list(_process_disturbances(evidence))
    found = [*logged, *_silences(evidence, logged), *_decision_stalls(evidence)]
    return sorted(found, key=lambda each: each.at_ms)


def find_unplanned(evidence: Evidence) -> list[Disturbance]:
    return [each for each in find_disturbances(evidence) if not each.is_planned]


def _process_disturbances(evidence: Evidence) -> Iterator[Disturbance]:
    lines = sorted(evidence.process_events, key=lambda line: int(line["at_ms"]))
    for number, line in enumerate(lines):
        ended = ENDS.get(line["what"])
        if ended is None:
            continue
        name = line["name"]
        later = (other for other in lines[number + 1 :] if other["name"] == name)
        until_ms = next((int(other["at_ms"]) for other in later if other["what"] == ended), None)
        code = line.get("code")
        how = f" (signal {-code})" if isinstance(code, int) and code < 0 else "" if code is None else f" (exit {code})"
        yield _disturbance(evidence, int(line["at_ms"]), until_ms, f"{name} {line['what']}{how}", name)


def _silences(evidence: Evidence, logged: list[Disturbance]) -> Iterator[Disturbance]:
    """The supervisor sees its own processes from nearer, so a silence that it explains is not reported again. Many that
    fall silent together have one cause, such as a machine or a network that stood still."""
    unknown = [
        row for row in evidence.silences if not any(each.process == row.name and _overlap(each, row) for each in logged)
    ]
    for together in _begun_together(unknown):
        first = together[0]
        ends = [row.ended_at_ms for row in together]
        if len(together) < MANY:
            for row in together:
                what = f"{row.name} {WHAT.get(row.kind, row.kind)}"
                found = _disturbance(evidence, row.began_at_ms, row.ended_at_ms, what, row.name)
                yield found._replace(ended=ENDED.get(row.ended_by, ""))
        else:
            until_ms = None if None in ends else max(end for end in ends if end is not None)
            names = ", ".join(sorted(row.name for row in together))
            what = f"{len(together)} processes at once {WHAT.get(first.kind, first.kind)} ({names})"
            yield _disturbance(evidence, first.began_at_ms, until_ms, what)


def _begun_together(silences: list[Silence]) -> list[list[Silence]]:
    found: list[list[Silence]] = []
    for row in sorted(silences, key=lambda row: (row.kind, row.began_at_ms)):
        near = found and found[-1][0].kind == row.kind and row.began_at_ms - found[-1][0].began_at_ms <= TOGETHER_MS
        if near:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _overlap(one: Disturbance, row: Silence) -> bool:
    has_ended_before = one.until_ms is not None and one.until_ms + AROUND_MS < row.began_at_ms
    return not has_ended_before and (row.ended_at_ms is None or one.at_ms - AROUND_MS <= row.ended_at_ms)


def _decision_stalls(evidence: Evidence) -> Iterator[Disturbance]:
    """Times without decisions. They also show faults of whatever nothing of ours watches."""
    rows = sorted(
        (row.decided_at_ms, record.timestamp_ms)
        for row in evidence.decisions
        if (record := evidence.request_by_position.get(row.position)) is not None
        and row.position not in evidence.dead_request_by_position
    )
    for (before_ms, _), (after_ms, entered_ms) in pairwise(rows):
        since_ms = max(before_ms, entered_ms)
        if after_ms - since_ms >= STALL_MS:
            yield _disturbance(evidence, since_ms, after_ms, "no decisions while requests were waiting")


def _disturbance(evidence: Evidence, at_ms: int, until_ms: int | None, what: str, process: str = "") -> Disturbance:
    end_ms = at_ms if until_ms is None else until_ms
    is_planned = any(
        int(fault.get("at_ms", 0)) - AROUND_MS <= end_ms and at_ms <= int(fault.get("until_ms", at_ms)) + AROUND_MS
        for fault in evidence.injected_faults
    )
    return Disturbance(at_ms, until_ms, what, is_planned, process)
