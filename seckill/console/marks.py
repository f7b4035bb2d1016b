"""Machine: what happened on the time axis of the traffic chart: outages as bands, operations and sold-out as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

KEPT_MS = 5 * 60 * 1000
SHORT_OUTAGE_MS = 1500
"""The width of an outage that was over before anyone saw it."""


class MarkKind(StrEnum):
    DOWN = "down"
    OPERATION = "operation"
    SOLD_OUT = "sold_out"


class Operation(NamedTuple):
    at_ms: int
    verb: str
    target: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """`until_ms` is None while it lasts. `subject`: the process, or the target of the operation."""

    at_ms: int
    until_ms: int | None
    kind: MarkKind
    subject: str = ""
    verb: str = ""


@dataclass(slots=True)
class ChartMarks:
    _marks: dict[tuple[str, int], ChartMark] = field(default_factory=dict)
    _outages: dict[str, ChartMark] = field(default_factory=dict)
    _restarts: dict[str, int] = field(default_factory=dict)

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
        self._drop_old(now_ms)

    def add_operations(self, operations: Iterable[Operation]) -> None:
        for at_ms, verb, target in operations:
            self._add(f"{verb} {target}", ChartMark(at_ms, at_ms, MarkKind.OPERATION, target, verb))

    def add_sold_out(self, times_ms: Iterable[int]) -> None:
        for at_ms in times_ms:
            self._add(MarkKind.SOLD_OUT, ChartMark(at_ms, at_ms, MarkKind.SOLD_OUT))

    def listed(self) -> list[ChartMark]:
        return sorted(self._marks.values(), key=lambda mark: mark.at_ms)

    def _add(self, name: str, mark: ChartMark) -> ChartMark:
        self._marks[(name, mark.at_ms)] = mark
        return mark

    def _drop_old(self, now_ms: int) -> None:
        old = [key for key, mark in list(self._marks.items()) if mark.until_ms and mark.until_ms < now_ms - KEPT_MS]
        for key in old:
            del self._marks[key]
