"""Machine: records that wait to be sent, by partition, the oldest first.

A partition has at most one batch under way, and a batch that failed returns to the front, so records keep their order.
`now` is monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Content = tuple[bytes, bytes, list[tuple[str, bytes]]]
"""Key, value and headers."""


class Partition(NamedTuple):
    topic: str
    partition: int


class Record:
    """A record that is to be sent before a deadline."""

    __slots__ = ("content", "on_settled", "send_before")

    def __init__(self, content: Content, send_before: float) -> None:
        self.content, self.send_before = content, send_before
        self.on_settled: Callable[[Any], None] | None = None

    def add_both(self, on_settled: Callable[[Any], None]) -> None:
        """`on_settled` is called once, with a `RecordPosition` or with an exception."""
        self.on_settled = on_settled


class WaitingRecords:
    """`wait_s`: a record that has waited for so long is not sent any more."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._waiting: dict[Partition, deque[Record]] = {}  # no empty ones
        self._under_way: set[Partition] = set()
        self._paused: set[Partition] = set()

    @property
    def is_empty(self) -> bool:
        """Nothing waits, and nothing is under way."""
        return not self._waiting and not self._under_way

    def append(self, partition: Partition, content: Content, now: float) -> Record:
        record = Record(content, now + self._wait_s)
        self._waiting.setdefault(partition, deque()).append(record)
        return record

    def sendable(self) -> set[Partition]:
        """Partitions of which a batch can be taken."""
        return self._waiting.keys() - self._under_way - self._paused

    def take(self, partition: Partition, now: float, fits: Callable[[int, Content], bool]) -> list[Record]:
        """The oldest records, until one does not fit into the batch; they are under way until `end`.

        Empty if the partition has a batch under way.
        """
        taken: list[Record] = []
        waiting = self._waiting.get(partition)
        if waiting is None or partition in self._under_way:
            return taken
        while waiting and waiting[0].send_before > now and fits(len(taken), waiting[0].content):
            taken.append(waiting.popleft())
        if not waiting:
            del self._waiting[partition]
        if taken:
            self._under_way.add(partition)
        return taken

    def end(self, partition: Partition) -> None:
        """The batch is settled."""
        self._under_way.discard(partition)

    def put_back(self, partition: Partition, records: Sequence[Record]) -> None:
        """The batch failed; it can be sent again after `resume`."""
        self._under_way.discard(partition)
        self._waiting.setdefault(partition, deque()).extendleft(reversed(records))
        self._paused.add(partition)

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._paused.update(partitions)

    def resume(self) -> None:
        self._paused.clear()

    def expire(self, now: float) -> list[Record]:
        """Remove the records that must not be sent any more."""
        expired: list[Record] = []
        for partition, waiting in list(self._waiting.items()):
            while waiting and waiting[0].send_before <= now:
                expired.append(waiting.popleft())
            if not waiting:
                del self._waiting[partition]
        return expired
