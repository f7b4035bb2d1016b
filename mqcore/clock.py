"""Shell: the only place that reads a clock or sets a timer.

Monotonic time decides (sessions, timeouts, lag); wall time is only ever written down (timestamps,
retention). A jump of the wall clock therefore expires no session and fences nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqcore.identity import Millis


class Instant(NamedTuple):
    """One moment on both clocks; machines get it as an argument and never ask for it."""

    monotonic_ms: Millis
    wall_ms: Millis


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What a shell may ask of time."""

    def now(self) -> Instant: ...

    def wall_ms(self) -> Millis: ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The real clocks, with timers on the running event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> Instant:
        return Instant(Millis(int(self._loop.time() * 1000)), Millis(time.time_ns() // 1_000_000))

    def wall_ms(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self._loop.call_soon(callback)
