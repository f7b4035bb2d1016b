"""Machine: from signs of life to silences: which process was not heard, from when to when, and what ended that.

It claims only what it has seen. A process that is killed and one that is frozen look alike until they come back: a
frozen one continues the same life, a restarted one begins another. A process that says goodbye was stopped. When the
machine itself was not called for a while, nothing was watched, so this time proves nothing about anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from seckill.report.disturbances import WATCHER

SILENT_MS_MIN = 3_000
"""Signs come once a second; a shorter time without one means nothing."""
TICK_MS_MAX = 1_000
"""A tick that comes later than this was delayed here, so only this much counts as time in which a sign was missed."""
FORGET_MS = 600_000
"""A process that has been gone for so long is no longer watched."""
NAMES_MAX = 500


SERVER = ""
"""The life of a server that is probed: an answer does not tell whether it was restarted."""


class Kind(StrEnum):
    SILENT = "silent"
    UNANSWERED = "unanswered"  # by a server
    STOPPED = "stopped"
    UNWATCHED = "unwatched"


class End(StrEnum):
    RESUMED = "resumed"
    RESTARTED = "restarted"


class ProcessState(StrEnum):
    """The names are those of the supervisor's states."""

    UP = "up"
    SILENT = "no answer"
    STOPPED = "down"


class SilentTime(NamedTuple):
    """`ended_at_ms` is None while it lasts. `name` and `began_at_ms` identify it."""

    name: str
    kind: Kind
    began_at_ms: int
    ended_at_ms: int | None = None
    ended_by: End | None = None


@dataclass(slots=True)
class _Watched:
    life: str
    heard_ms: int
    missed_ms: int = 0  # since then, as far as it was watched
    has_left: bool = False  # it said goodbye, at `heard_ms`
    silent: SilentTime | None = None


class SignLog:
    """`sign`, `goodbye` and `tick` return the silences that began or ended."""

    def __init__(self, now_ms: int) -> None:
        self._watched: dict[str, _Watched] = {}
        self._called_ms = now_ms

    def states(self) -> dict[str, ProcessState]:
        """The present state of everything that is watched."""
        return {name: _state(known) for name, known in sorted(self._watched.items())}

    def sign(self, name: str, life: str, now_ms: int) -> list[SilentTime]:
        """Something was heard. `life` differs after each start; that of a server is always `SERVER`."""
        known = self._watched.get(name)
        if known is None or (known.life == life and known.has_left):
            if known is None and len(self._watched) < NAMES_MAX:
                self._watched[name] = _Watched(life, now_ms)
            return []  # a datagram that was sent before the goodbye may come after it
        changed = self._end_silence(name, known, life, now_ms)
        self._watched[name] = _Watched(life, now_ms)
        return changed

    def goodbye(self, name: str, life: str, now_ms: int) -> list[SilentTime]:
        known = self._watched.get(name)
        if known is not None and known.life == life and not known.has_left:
            changed = [] if known.silent is None else [_ended(known.silent, now_ms, End.RESUMED)]
            self._watched[name] = _Watched(life, now_ms, has_left=True)
            return changed
        return []

    def tick(self, now_ms: int) -> list[SilentTime]:
        """Call it at least once a second."""
        called_ms, self._called_ms = self._called_ms, now_ms
        if now_ms - called_ms >= SILENT_MS_MIN:
            return [self._forgive(called_ms, now_ms)]
        changed = []
        for name, known in list(self._watched.items()):
            known.missed_ms += min(now_ms - called_ms, now_ms - known.heard_ms, TICK_MS_MAX)
            if known.silent is None and known.missed_ms >= SILENT_MS_MIN:
                known.silent = SilentTime(name, _kind(known), known.heard_ms)
                changed.append(known.silent)
            elif now_ms - known.heard_ms >= FORGET_MS:
                del self._watched[name]
        return changed

    def _forgive(self, called_ms: int, now_ms: int) -> SilentTime:
        """Signs may have been lost meanwhile, so everything gets another chance to be heard."""
        for known in self._watched.values():
            if known.silent is None and not known.has_left:
                known.heard_ms, known.missed_ms = now_ms, 0
        return SilentTime(WATCHER, Kind.UNWATCHED, called_ms, now_ms, End.RESUMED)

    def _end_silence(self, name: str, known: _Watched, life: str, now_ms: int) -> list[SilentTime]:
        by = End.RESUMED if known.life == life else End.RESTARTED
        if known.silent is not None:
            return [_ended(known.silent, now_ms, by)]
        if by is End.RESTARTED and not known.has_left:  # so quickly that its silence was not noticed
            return [SilentTime(name, Kind.SILENT, known.heard_ms, now_ms, by)]
        return []


def _state(known: _Watched) -> ProcessState:
    if known.has_left:
        return ProcessState.STOPPED
    return ProcessState.UP if known.silent is None else ProcessState.SILENT


def _kind(known: _Watched) -> Kind:
    if known.has_left:
        return Kind.STOPPED
    return Kind.UNANSWERED if known.life == SERVER else Kind.SILENT


def _ended(silent: SilentTime, now_ms: int, by: End) -> SilentTime:
    return silent._replace(ended_at_ms=now_ms, ended_by=by)
