"""Machine: what happened while the board was open or shortly before: outages, elections, operations, sales that opened
or sold out. The chart shows them as bands and lines, the timeline as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

KEPT_MS = 30 * 60 * 1000
MARKS_MAX = 200
SHORT_OUTAGE_MS = 1500
"""The width of an outage that was over before anyone saw it."""

Place = tuple[str, int]  # topic, partition


class MarkKind(StrEnum):
    DOWN = "down"
    ELECTION = "election"
    OPERATION = "operation"
    SALE_OPENED = "sale_opened"
    SOLD_OUT = "sold_out"


class Operation(NamedTuple):
    at_ms: int
    verb: str
    target: str
    actor: str = ""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """`until_ms` is None while it lasts. `subject`: the process, the sale, the new leader, or the operation's target.
    `count`: the partitions of an election."""

    at_ms: int
    until_ms: int | None
    kind: MarkKind
    subject: str = ""
    verb: str = ""
    actor: str = ""
    count: int = 0


@dataclass(slots=True)
class ChartMarks:
    _marks: dict[tuple[str, int], ChartMark] = field(default_factory=dict)
    _outages: dict[str, ChartMark] = field(default_factory=dict)
    _restarts: dict[str, int] = field(default_factory=dict)
    _leaders: dict[Place, int] = field(default_factory=dict)

    def observe_processes(self, now_ms: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """The stack's processes as they are now."""
        listed = {row["name"]: row for row in rows}
        for name, row in listed.items():
            restarts_before = self._restarts.get(name, row["restarts"])
            is_down = row["state"] != "up"
            if is_down and name not in self._outages:
                self._outages[name] = self._add(name, ChartMark(now_ms, None, MarkKind.DOWN, name))
            elif not is_down and name in self._outages:
                self._add(name, replace(self._outages.pop(name), until_ms=now_ms))
            elif not is_down and row["restarts"] > restarts_before:
                self._add(name, ChartMark(now_ms - SHORT_OUTAGE_MS, now_ms, MarkKind.DOWN, name))
            self._restarts[name] = row["restarts"]
        for name in set(self._outages) - set(listed):
            self._add(name, replace(self._outages.pop(name), until_ms=now_ms))

    def observe_leaders(self, now_ms: int, leaders: Mapping[Place, int]) -> None:
        """The leader of each partition as it is now; below 0 without one. Changes become one mark for each leader."""
        changed = Counter(leader for place, leader in leaders.items() if self._leaders.get(place, leader) != leader)
        for leader, partitions in changed.items():
            subject = "" if leader < 0 else str(leader)
            mark = ChartMark(now_ms, now_ms, MarkKind.ELECTION, subject, count=partitions)
            self._add(f"election {subject}", mark)
        self._leaders.update(leaders)

    def add_operations(self, operations: Iterable[Operation]) -> None:
        for at_ms, verb, target, actor in operations:
            self._add(f"{verb} {target}", ChartMark(at_ms, at_ms, MarkKind.OPERATION, target, verb, actor))

    def add_openings(self, now_ms: int, sales: Iterable[tuple[int, int]]) -> None:
        """Sales with the time at which they open. Later ones are left out until then."""
        for sale_id, opens_at_ms in sales:
            if opens_at_ms <= now_ms:
                subject = str(sale_id)
                self._add(f"opened {subject}", ChartMark(opens_at_ms, opens_at_ms, MarkKind.SALE_OPENED, subject))

    def add_sold_out(self, times_ms: Iterable[int]) -> None:
        for at_ms in times_ms:
            self._add(MarkKind.SOLD_OUT, ChartMark(at_ms, at_ms, MarkKind.SOLD_OUT))

    def listed(self, now_ms: int) -> list[ChartMark]:
        """The oldest first; what ended more than half an hour ago is forgotten."""
        oldest_ms = now_ms - KEPT_MS
        for key in [key for key, mark in list(self._marks.items()) if mark.until_ms and mark.until_ms < oldest_ms]:
            self._marks.pop(key, None)
        return sorted(self._marks.values(), key=lambda mark: mark.at_ms)[-MARKS_MAX:]

    def _add(self, name: str, mark: ChartMark) -> ChartMark:
        self._marks[(name, mark.at_ms)] = mark
        return mark
