"""Shell: requests that wait for a partition to move — fetches for data, produces and journals for the commit."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from mqcore.identity import Offset

log = logging.getLogger(__name__)

Committed = Callable[[Exception | None], None]


class CommitQueue:
    """Who waits until everything below an offset is committed. Ends come in rising order, so this is a queue."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Committed]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: Offset, then: Committed) -> None:
        if self._waiting and end < self._waiting[-1][0]:  # a duplicate asks for an older end: keep the queue sorted
            waiting = sorted([*self._waiting, (end, then)], key=lambda pair: pair[0])
            self._waiting = deque(waiting)
        else:
            self._waiting.append((end, then))

    def release(self, high_watermark: int) -> None:
        while self._waiting and self._waiting[0][0] <= high_watermark:
            _call(self._waiting.popleft()[1], None)

    def fail(self, fault: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, then in waiting:
            _call(then, fault)


class Watchers:
    """Who is told each time the partition has more to read (or never will). Telling is cheap and changes nothing."""

    __slots__ = ("_watching",)

    def __init__(self) -> None:
        self._watching: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._watching)

    def add(self, who: object, told: Callable[[], None]) -> None:
        self._watching[who] = told

    def remove(self, who: object) -> None:
        self._watching.pop(who, None)

    def tell(self) -> None:
        if self._watching:
            for told in list(self._watching.values()):
                _call(told)


def _call(callback: Callable[..., None], *arguments: object) -> None:
    """One callback that raises must not keep the commit from the others, nor from the next sync."""
    try:
        callback(*arguments)
    except Exception:
        log.exception("a callback of a partition failed")
