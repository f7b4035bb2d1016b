"""Fakes for tests of machines: a clock that moves only when told, and a journal that commits when told."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic

from mqcore.coordination.decision import Fact
from mqcore.coordination.journal import JournalFault
from mqcore.host import Instant
from mqcore.identity import Millis, Offset
from mqcore.partitions.waiting_requests import COMMITTED, OnCommit, StorageFault


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

    def seconds(self) -> float:
        return self.monotonic_ms / 1000

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

    def drop_timers(self) -> None:
        """The process is gone, and its timers with it."""
        self._timers.clear()

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.Event()
        self.call_later(seconds * 1000, awake.set)
        await awake.wait()

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as deadline:
            timer = self.call_later(seconds * 1000, lambda: deadline.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()

    @property
    def next_timer_ms(self) -> float | None:
        """Time until the next timer; None if there is no timer."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] - self.monotonic_ms if self._timers else None

    def advance(self, ms: int) -> None:
        """Let time pass; timers run in order, each at its own time."""
        end = self.monotonic_ms + ms
        fired_at_once = 0
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            fired_at_once = fired_at_once + 1 if at <= self.monotonic_ms else 0
            assert fired_at_once < 10_000, "timers are set for the current time again and again"
            self.monotonic_ms = max(self.monotonic_ms, int(at))
            if timer.callback is not None:
                timer.callback()
        self.monotonic_ms = end


class MemoryJournal(Generic[Fact]):
    """Keeps the facts that `is_kept` accepts. They are committed immediately, unless `hold` makes commits wait."""

    def __init__(self, is_kept: Callable[[Fact], bool] = lambda fact: True) -> None:
        self.kept: list[Fact] = []
        self.broken = False
        self.committed = 0
        self._is_kept = is_kept
        self._held = False
        self._waiting: list[tuple[int, OnCommit]] = []

    def append(self, facts: Sequence[Fact]) -> Offset:
        kept = [fact for fact in facts if self._is_kept(fact)]
        if kept and self.broken:
            raise JournalFault("no space left")
        self.kept += kept
        if not self._held:
            self.committed = len(self.kept)
        return Offset(len(self.kept))

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        if end <= self.committed:
            on_commit(COMMITTED)
        else:
            self._waiting.append((end, on_commit))

    def hold(self) -> None:
        self._held = True

    def crash(self, lost: int) -> None:
        """Lose the last `lost` facts, except committed ones; waiting callers get a fault."""
        del self.kept[max(self.committed, len(self.kept) - lost) :]
        self.broken = self._held = False
        self.committed = len(self.kept)
        waiting, self._waiting = self._waiting, []
        for _, on_commit in waiting:
            on_commit(StorageFault("crashed"))

    def release(self) -> None:
        self._held = False
        self.committed = len(self.kept)
        waiting, self._waiting = self._waiting, []
        for _, on_commit in waiting:
            on_commit(COMMITTED)
