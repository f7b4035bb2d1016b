"""Fakes for whoever tests a machine: time that only moves when told, and a journal that commits when told."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Generic

from mqcore.clock import Instant
from mqcore.coordination.decision import Fact
from mqcore.coordination.journal import JournalFault
from mqcore.identity import Millis, Offset


class VirtualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """Monotonic time starts at 1,000,000 ms, wall time somewhere else; they only move together."""

    WALL_AHEAD = 1_700_000_000_000

    def __init__(self) -> None:
        self.monotonic_ms = 1_000_000
        self.wall_ahead_ms = self.WALL_AHEAD
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._count = 0

    def now(self) -> Instant:
        return Instant(Millis(self.monotonic_ms), self.wall_ms())

    def wall_ms(self) -> Millis:
        return Millis(self.monotonic_ms + self.wall_ahead_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        self._count += 1
        heapq.heappush(self._timers, (self.monotonic_ms + max(0.0, delay_ms), self._count, timer))
        return timer

    def call_soon(self, callback: Callable[[], None]) -> VirtualTimer:
        return self.call_later(0, callback)

    @property
    def next_timer_ms(self) -> float | None:
        """How long until something happens by itself; None: never."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] - self.monotonic_ms if self._timers else None

    def advance(self, ms: int) -> None:
        """Let time pass; timers go off in order, each at its own moment."""
        end = self.monotonic_ms + ms
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            self.monotonic_ms = max(self.monotonic_ms, int(at))
            if timer.callback is not None:
                timer.callback()
        self.monotonic_ms = end


class MemoryJournal(Generic[Fact]):
    """Keeps what `is_kept` says. Everything is committed at once, unless `hold` says that commits wait."""

    def __init__(self, is_kept: Callable[[Fact], bool] = lambda fact: True) -> None:
        self.kept: list[Fact] = []
        self.broken = False
        self.committed = 0
        self._is_kept = is_kept
        self._held = False
        self._waiting: list[tuple[int, Callable[[JournalFault | None], None]]] = []

    def append(self, facts: Sequence[Fact]) -> Offset:
        kept = [fact for fact in facts if self._is_kept(fact)]
        if kept and self.broken:
            raise JournalFault("no space left")
        self.kept += kept
        if not self._held:
            self.committed = len(self.kept)
        return Offset(len(self.kept))

    def when_committed(self, end: Offset, then: Callable[[JournalFault | None], None]) -> None:
        if end <= self.committed:
            then(None)
        else:
            self._waiting.append((end, then))

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self.committed = len(self.kept)
        waiting, self._waiting = self._waiting, []
        for _, then in waiting:
            then(None)
