"""Shell: the requests that wait for a partition: produces and journals for a commit, fetches for new data."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mqcore.identity import Offset

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below the requested offset is committed."""


@dataclass(frozen=True, slots=True)
class NotLeader:
    """This broker does not lead the partition any more, so the records may or may not survive on another one."""

    reason: str


@dataclass(frozen=True, slots=True)
class StorageFault:
    """The partition went offline before the commit, because its log is corrupt or its disk failed."""

    reason: str


class NotLeading(Exception):
    """This broker does not lead the partition, so nothing was appended."""


CommitOutcome = Committed | NotLeader | StorageFault
OnCommit = Callable[[CommitOutcome], None]

COMMITTED = Committed()


class CommitQueue:
    """Callbacks that wait until everything below an offset is committed, ordered by that offset."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, OnCommit]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, end: Offset, on_commit: OnCommit) -> None:
        if self.waiting and end < self.waiting[-1][0]:  # a retried batch waits for an earlier end
            waiting = sorted([*self.waiting, (end, on_commit)], key=lambda pair: pair[0])
            self.waiting = deque(waiting)
        else:
            self.waiting.append((end, on_commit))

    def release(self, high_watermark: int) -> None:
        while self.waiting and self.waiting[0][0] <= high_watermark:
            _call(self.waiting.popleft()[1], COMMITTED)

    def fail(self, outcome: NotLeader | StorageFault) -> None:
        waiting, self.waiting = self.waiting, deque()
        for _, on_commit in waiting:
            _call(on_commit, outcome)


ALL_REPLICAS = -1
"""The value of acks that waits for the high watermark. Any other one waits for this replica only."""


class Acknowledgements:
    """The requests that wait for their records in one leader epoch.

    With acks=1 a record has to be in this replica's log, or in its durable part (`flush.messages=1`). With acks=all it
    has to be below the high watermark. All waiting requests fail when the epoch ends: the next leader may give their
    offsets to other records, so reaching those offsets would prove nothing."""

    __slots__ = ("_committed", "_local")

    def __init__(self) -> None:
        self._local = CommitQueue()
        self._committed = CommitQueue()

    def __len__(self) -> int:
        return len(self._local) + len(self._committed)

    def add(self, acks: int, end: Offset, on_commit: OnCommit) -> None:
        (self._committed if acks == ALL_REPLICAS else self._local).add(end, on_commit)

    def release(self, local_end: int, high_watermark: int) -> None:
        if self._local.waiting:  # nothing waits at most appends
            self._local.release(local_end)
        if self._committed.waiting:
            self._committed.release(high_watermark)

    def fail(self, outcome: NotLeader | StorageFault) -> None:
        self._local.fail(outcome)
        self._committed.fail(outcome)


class Watchers:
    """Callbacks that run each time the partition has more to read, or stops serving.

    A callback runs inside the append, so it should only schedule its work, and must not write to this partition."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, key: object, callback: Callable[[], None]) -> None:
        """`key` identifies the callback for `remove`; a second `add` with the same key replaces the first."""
        self._callbacks[key] = callback

    def remove(self, key: object) -> None:
        self._callbacks.pop(key, None)

    def notify(self) -> None:
        if self._callbacks:
            for callback in list(self._callbacks.values()):
                _call(callback)


def _call(callback: Callable[..., None], *arguments: object) -> None:
    """Log a callback that raises, so that the remaining callbacks and the next sync still run."""
    try:
        callback(*arguments)
    except Exception:
        log.exception("a callback of a partition failed")
