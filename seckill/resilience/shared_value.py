"""Shell: a value that many threads want and one thread computes, so a slow source holds up one thread only.

While one thread recomputes it, the others get the previous value, or None if there is none yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class SharedValue(Generic[Value]):
    """If `compute` raises, the exception goes to the computing thread and the previous value stays."""

    def __init__(self, compute: Callable[[], Value], fresh_seconds: float) -> None:
        self._compute, self._fresh_seconds = compute, fresh_seconds
        self._computing = threading.Lock()
        self._latest: tuple[float, Value] | None = None

    def get(self) -> Value | None:
        latest = self._latest
        if latest is not None and time.monotonic() - latest[0] < self._fresh_seconds:
            return latest[1]
        if not self._computing.acquire(blocking=False):
            return None if latest is None else latest[1]
        try:
            value = self._compute()
            self._latest = time.monotonic(), value
            return value
        finally:
            self._computing.release()
