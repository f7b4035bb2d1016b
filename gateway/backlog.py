"""Machine: how long the queue is and how fast it is worked off: places, waiting times, and when it is too long.

The pace is learned only while inventory has enough to do: what it does at quiet times says how often somebody comes,
not how fast it is. A queue that stands still is expected to go on at its old pace, after as long a rest again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.places import Place

Partition = tuple[str, int]

BUSY = 50
"""Requests in the queue from which on the pace is inventory's own."""
LEARN_S = 15.0
SHORTEST_WAIT_MS = 500
STALE_S = 10.0


class Estimate(NamedTuple):
    """`ahead`: requests before this one; 0: its turn has come, so it is decided or about to be. `wait_ms` is None where
    nobody has seen yet how fast it goes."""

    ahead: int
    wait_ms: int | None


class _Step(NamedTuple):
    """Work done in an interval in which there was always some left."""

    until: float
    seconds: float
    decided: int


@dataclass(slots=True)
class Backlog:
    """Fed by `observe`; everything else reads. `now` is monotonic seconds."""

    _left: list[int] = field(default_factory=list)  # undecided requests, partition by partition
    _decided: dict[Partition, int] = field(default_factory=dict)
    _seen_at: float = float("-inf")
    _moved_at: float = float("-inf")
    _steps: deque[_Step] = field(default_factory=deque)
    _pace: float | None = None  # requests a second

    def observe(self, now: float, ends: Mapping[Partition, int], decided: Mapping[Partition, int]) -> None:
        """The log's ends, and how far group `inventory` has committed."""
        before = self.length
        progress = sum(max(0, at - self._decided.get(partition, at)) for partition, at in decided.items())
        if progress or not before:
            self._moved_at = now
        if before >= max(BUSY, progress) and progress and now - self._seen_at < STALE_S:
            self._steps.append(_Step(now, now - self._seen_at, progress))
            while self._steps[0].until < now - LEARN_S:
                self._steps.popleft()
            self._pace = sum(step.decided for step in self._steps) / sum(step.seconds for step in self._steps)
        self._left = [max(0, end - decided.get(partition, 0)) for partition, end in ends.items()]
        self._decided, self._seen_at = dict(decided), now

    @property
    def length(self) -> int:
        return sum(self._left)

    def knows(self, now: float) -> bool:
        return now - self._seen_at < STALE_S

    def wait_ms(self, now: float) -> int | None:
        """What whoever comes now has to wait; None: not known."""
        return self._wait_ms(self.length, now) if self.knows(now) else None

    def estimate(self, place: Place, now: float) -> Estimate | None:
        """Of a request that stands there. Partitions are worked off side by side: before its turn comes, as many of
        each other one have gone as are before it in its own."""
        partition = (place.topic, place.partition)
        if not self.knows(now) or partition not in self._decided:
            return None
        before = max(0, place.offset - self._decided[partition])
        ahead = max(before, sum([min(before, left) for left in self._left]))
        return Estimate(ahead, self._wait_ms(ahead, now))

    def is_decided(self, place: Place) -> bool:
        """Has inventory gone past it, as far as we know?"""
        decided = self._decided.get((place.topic, place.partition))
        return decided is not None and place.offset < decided

    def _wait_ms(self, requests: int, now: float) -> int | None:
        if requests < BUSY and now - self._moved_at < STALE_S:
            return SHORTEST_WAIT_MS
        rest_s = max(0.0, now - self._moved_at)
        if self._pace is None:
            return int(rest_s * 1000) if rest_s > STALE_S else None
        return max(SHORTEST_WAIT_MS, int((requests / self._pace + rest_s) * 1000))
