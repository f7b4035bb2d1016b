"""Machine: what happened on the time axis of the peak: faults as bands with a name, operators' words as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

LAST_MS = 5 * 60 * 1000
POINT_MS = 1500
"""A death that was over before anybody looked is shown so long."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`until_ms` None: it lasts."""

    at_ms: int
    until_ms: int | None
    what: str
    kind: str  # down, word, sold_out


@dataclass(slots=True)
class Marks:
    _marks: dict[tuple[str, int], Mark] = field(default_factory=dict)
    _open: dict[str, Mark] = field(default_factory=dict)
    _restarts: dict[str, int] = field(default_factory=dict)

    def see(self, now_ms: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """The instances of the stack as they are now."""
        listed = {row["name"]: row for row in rows}
        for name, row in listed.items():
            before = self._restarts.get(name, row["restarts"])
            is_down = row["state"] != "up"
            if is_down and name not in self._open:
                self._keep(name, Mark(now_ms, None, name, "down"))
            elif not is_down and name in self._open:
                self._keep(name, replace(self._open.pop(name), until_ms=now_ms), done=True)
            elif not is_down and row["restarts"] > before:
                self._keep(name, Mark(now_ms - POINT_MS, now_ms, name, "down"), done=True)
            self._restarts[name] = row["restarts"]
        for name in set(self._open) - set(listed):
            self._keep(name, replace(self._open.pop(name), until_ms=now_ms), done=True)
        self._forget(now_ms)

    def spoken(self, words: Iterable[tuple[int, str]], sold_out: Iterable[int]) -> None:
        """Operators' words: when, and what; and when the last units were sold."""
        for at_ms, what in words:
            self._marks[(what, at_ms)] = Mark(at_ms, at_ms, what, "word")
        for at_ms in sold_out:
            self._marks[("sold out", at_ms)] = Mark(at_ms, at_ms, "sold out", "sold_out")

    def listed(self) -> list[Mark]:
        return sorted(self._marks.values(), key=lambda mark: mark.at_ms)

    def _keep(self, name: str, mark: Mark, *, done: bool = False) -> None:
        self._marks[(name, mark.at_ms)] = mark
        if not done:
            self._open[name] = mark

    def _forget(self, now_ms: int) -> None:
        old = [key for key, mark in list(self._marks.items()) if mark.until_ms and mark.until_ms < now_ms - LAST_MS]
        for key in old:
            del self._marks[key]
