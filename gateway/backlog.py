"""Machine: how long the queue is and how fast it is worked off: places, waiting times, and when it is too long.

The pace is learned only while inventory has enough to do: what it does at quiet times says how often somebody comes,
not how fast it is. A queue that stands still is expected to go on at its old pace, after as long a rest again.

A single partition that stands still while others move (its log is offline, its record cannot be decided) counts neither
for the pace nor for the wait of new requests. And the guard never shuts completely: one request a second is admitted
whatever the estimate says, because only a new decision can show that inventory works again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.places import Place
from seckill.breaker import Permit
from seckill.topics import PURCHASE_DIVERTED

Partition = tuple[str, int]

BUSY = 50
"""Requests in the queue from which on the pace is inventory's own."""
LEARN_S = 15.0
SHORTEST_WAIT_MS = 500
STALE_S = 10.0
TRICKLE_S = 1.0
"""The guard admits one request in this time, however long the estimated wait."""


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
    """Fed by `observe`; everything else reads. `now` is monotonic seconds. `first` is the topic that is consumed before
    the other, while there is something in it."""

    first: str = PURCHASE_DIVERTED.name
    _left: dict[str, list[int]] = field(default_factory=dict)  # undecided requests: of a topic, partition by partition
    _total: dict[str, int] = field(default_factory=dict)  # of a topic
    _stuck: dict[str, int] = field(default_factory=dict)  # of these, in partitions that stand still while others move
    _decided: dict[Partition, int] = field(default_factory=dict)
    _still_since: dict[Partition, float] = field(default_factory=dict)  # with something left and no progress
    _probed_at: float = float("-inf")
    _seen_at: float = float("-inf")
    _moved_at: float = float("-inf")
    _steps: deque[_Step] = field(default_factory=deque)
    _pace: float | None = None  # requests a second; at first what somebody has told us, if he has

    def observe(self, now: float, ends: Mapping[Partition, int], decided: Mapping[Partition, int]) -> None:
        """The log's ends, and how far group `inventory` has decided."""
        before = sum(self._working(topic) for topic in self._total)
        progress = sum(max(0, at - self._decided.get(partition, at)) for partition, at in decided.items())
        if progress or not before:
            self._moved_at = now
        if before >= max(BUSY, progress) and progress and now - self._seen_at < STALE_S:
            self._steps.append(_Step(now, now - self._seen_at, progress))
            while self._steps[0].until < now - LEARN_S:
                self._steps.popleft()
            self._pace = sum(step.decided for step in self._steps) / sum(step.seconds for step in self._steps)
        left = {partition: max(0, end - decided.get(partition, 0)) for partition, end in ends.items()}
        self._still_since = {
            partition: self._still_since.get(partition, now)
            for partition, count in left.items()
            if count and decided.get(partition, 0) <= self._decided.get(partition, -1)
        }
        self._left = {topic: [left[each] for each in left if each[0] == topic] for topic, _ in left}
        self._total = {topic: sum(each) for topic, each in self._left.items()}
        self._decided, self._seen_at = dict(decided), now
        self._stuck = self._stand_still(now, left)

    def _stand_still(self, now: float, left: Mapping[Partition, int]) -> dict[str, int]:
        """Requests in partitions that have not moved for a while, though others have; by topic."""
        stuck: dict[str, int] = {}
        if now - self._moved_at < STALE_S:
            for partition, since in self._still_since.items():
                if now - since >= STALE_S:
                    stuck[partition[0]] = stuck.get(partition[0], 0) + left[partition]
        return stuck

    @property
    def undecided(self) -> dict[str, int]:
        """By topic."""
        return self._total

    @property
    def length(self) -> int:
        return sum(self._total.values())

    def knows(self, now: float) -> bool:
        return now - self._seen_at < STALE_S

    def wait_ms(self, topic: str, now: float) -> int | None:
        """What whoever comes now to this topic has to wait; None: not known."""
        if not self.knows(now):
            return None
        return self._wait_ms(self._working(topic) + self._passing(topic), now)

    def permit(self, topic: str, limit_ms: int, now: float) -> Permit:
        """The backlog guard: NO if a new request would wait longer than this; but every `TRICKLE_S` one is a PROBE."""
        wait_ms = self.wait_ms(topic, now)
        if wait_ms is None or wait_ms <= limit_ms:
            return Permit.YES
        if now - self._probed_at < TRICKLE_S:
            return Permit.NO
        self._probed_at = now
        return Permit.PROBE

    def give_back(self) -> None:
        """The latest probe was not sent: the next request may be one."""
        self._probed_at = float("-inf")

    def estimate(self, place: Place, now: float) -> Estimate | None:
        """Of a request that stands there. Partitions are worked off side by side: before its turn comes, as many of
        each other one of its topic have gone as are before it in its own; and all of the topic that goes first."""
        partition = (place.topic, place.partition)
        if not self.knows(now) or partition not in self._decided:
            return None
        before = max(0, place.offset - self._decided[partition])
        beside = sum([min(before, left) for left in self._left.get(place.topic, ())])
        ahead = max(before, beside) + (self._passing(place.topic) if before else 0)
        return Estimate(ahead, self._wait_ms(ahead, now))

    def is_decided(self, place: Place) -> bool:
        """Has inventory gone past it, as far as we know?"""
        decided = self._decided.get((place.topic, place.partition))
        return decided is not None and place.offset < decided

    def _passing(self, topic: str) -> int:
        """What goes before all that stands in this topic."""
        return 0 if topic == self.first else self._working(self.first)

    def _working(self, topic: str) -> int:
        """Undecided requests of a topic, without the partitions that stand still."""
        return self._total.get(topic, 0) - self._stuck.get(topic, 0)

    def _wait_ms(self, requests: int, now: float) -> int | None:
        if requests < BUSY and now - self._moved_at < STALE_S:
            return SHORTEST_WAIT_MS
        rest_s = max(0.0, now - self._moved_at)
        if self._pace is None:
            return int(rest_s * 1000) if rest_s > STALE_S else None
        return max(SHORTEST_WAIT_MS, int((requests / self._pace + rest_s) * 1000))
