"""Shell: an answer that many ask for and one thread computes: kept for a moment, so a stall behind it holds one thread.

While it is computed again the others get the previous answer; where there is none yet, None.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Cached(Generic[Answer]):
    """`compute` raises nothing that should be kept: its exception goes to the caller that computed."""

    def __init__(self, compute: Callable[[], Answer], fresh_s: float) -> None:
        self._compute, self._fresh_s = compute, fresh_s
        self._computing = threading.Lock()
        self._kept: tuple[float, Answer] | None = None

    def get(self) -> Answer | None:
        kept = self._kept
        if kept is not None and time.monotonic() - kept[0] < self._fresh_s:
            return kept[1]
        if not self._computing.acquire(blocking=False):
            return None if kept is None else kept[1]
        try:
            answer = self._compute()
            self._kept = time.monotonic(), answer
            return answer
        finally:
            self._computing.release()
