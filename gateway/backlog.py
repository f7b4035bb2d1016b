"""Machine: the queue's length and pace: positions, waiting times, and when the queue is too long.

The pace is learned only while inventory has enough to do, because at quiet times it shows how often buyers come, not
how fast inventory is. A queue that stalls is expected to resume at its old pace after a pause as long as the present
one.

A single partition that stalls while others move (its log is offline, or one record cannot be decided) counts neither
for the pace nor for the wait of new requests. And the backlog guard never closes completely: one request per second is
admitted whatever the estimate says, because only a new decision can show that inventory works again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import PURCHASE_DIVERTED
from seckill.resilience.circuit_breaker import Permit

Partition = tuple[str, int]

BUSY_REQUESTS_MIN = 50
"""With this many requests in the queue, the observed pace is inventory's own."""
PACE_WINDOW_S = 15.0
WAIT_MS_MIN = 500
STALE_S = 10.0
PROBE_INTERVAL_S = 1.0
"""The guard admits one request per interval, however long the estimated wait is."""


class Estimate(NamedTuple):
    """`ahead`: requests before this one; 0 means that it is being decided. `wait_ms` is None while the pace is
    unknown."""

    ahead: int
    wait_ms: int | None


class _Progress(NamedTuple):
    """Decisions made in an interval during which the queue was never empty."""

    until: float
    seconds: float
    decided: int


@dataclass(slots=True)
class Backlog:
    """`observe` feeds it; all other methods read. `now` is monotonic seconds. `priority_topic` is consumed before the
    other topic as long as it contains requests."""

    priority_topic: str = PURCHASE_DIVERTED.name
    _left: dict[str, list[int]] = field(default_factory=dict)  # undecided requests by topic, one number per partition
    _total: dict[str, int] = field(default_factory=dict)  # by topic
    _stalled: dict[str, int] = field(default_factory=dict)  # by topic: in partitions that stall while others move
    _decided: dict[Partition, int] = field(default_factory=dict)
    _stalled_since: dict[Partition, float] = field(default_factory=dict)  # partitions with requests but no progress
    _probed_at: float = float("-inf")
    _observed_at: float = float("-inf")
    _moved_at: float = float("-inf")
    _history: deque[_Progress] = field(default_factory=deque)
    _pace: float | None = None  # requests per second; initially the configured expectation, if any

    def observe(self, now: float, ends: Mapping[Partition, int], decided: Mapping[Partition, int]) -> None:
        """`ends`: the log's end offsets; `decided`: the offsets up to which inventory has decided."""
        before = sum(self._moving(topic) for topic in self._total)
        progress = sum(max(0, at - self._decided.get(partition, at)) for partition, at in decided.items())
        if progress or not before:
            self._moved_at = now
        if before >= max(BUSY_REQUESTS_MIN, progress) and progress and now - self._observed_at < STALE_S:
            self._history.append(_Progress(now, now - self._observed_at, progress))
            while self._history[0].until < now - PACE_WINDOW_S:
                self._history.popleft()
            self._pace = sum(each.decided for each in self._history) / sum(each.seconds for each in self._history)
        left = {partition: max(0, end - decided.get(partition, 0)) for partition, end in ends.items()}
        self._stalled_since = {
            partition: self._stalled_since.get(partition, now)
            for partition, count in left.items()
            if count and decided.get(partition, 0) <= self._decided.get(partition, -1)
        }
        self._left = {topic: [left[each] for each in left if each[0] == topic] for topic, _ in left}
        self._total = {topic: sum(each) for topic, each in self._left.items()}
        self._decided, self._observed_at = dict(decided), now
        self._stalled = self._count_stalled(now, left)

    def _count_stalled(self, now: float, left: Mapping[Partition, int]) -> dict[str, int]:
        """Requests by topic in partitions that have not moved for `STALE_S`, provided that others have."""
        stalled: dict[str, int] = {}
        if now - self._moved_at < STALE_S:
            for partition, since in self._stalled_since.items():
                if now - since >= STALE_S:
                    stalled[partition[0]] = stalled.get(partition[0], 0) + left[partition]
        return stalled

    @property
    def undecided(self) -> dict[str, int]:
        """By topic."""
        return self._total

    @property
    def length(self) -> int:
        return sum(self._total.values())

    def is_fresh(self, now: float) -> bool:
        return now - self._observed_at < STALE_S

    def wait_ms(self, topic: str, now: float) -> int | None:
        """How long a request that joins this topic now would wait; None if unknown."""
        if not self.is_fresh(now):
            return None
        return self._estimate_wait_ms(self._moving(topic) + self._ahead_of_topic(topic), now)

    def permit(self, topic: str, limit_ms: int, now: float) -> Permit:
        """The backlog guard: NO if a new request would wait longer than the limit, but PROBE once per interval."""
        wait_ms = self.wait_ms(topic, now)
        if wait_ms is None or wait_ms <= limit_ms:
            return Permit.YES
        if now - self._probed_at < PROBE_INTERVAL_S:
            return Permit.NO
        self._probed_at = now
        return Permit.PROBE

    def give_back(self) -> None:
        """Return a PROBE that was not sent; the next request may be one."""
        self._probed_at = float("-inf")

    def estimate(self, position: RecordPosition, now: float) -> Estimate | None:
        """For a request at this position.

        Partitions are processed side by side. Before the turn of this request, each other partition of its topic has
        processed as many requests as are ahead of it in its own, and the priority topic is empty.
        """
        partition = (position.topic, position.partition)
        if not self.is_fresh(now) or partition not in self._decided:
            return None
        before = max(0, position.offset - self._decided[partition])
        side_by_side = sum([min(before, left) for left in self._left.get(position.topic, ())])
        ahead = max(before, side_by_side) + (self._ahead_of_topic(position.topic) if before else 0)
        return Estimate(ahead, self._estimate_wait_ms(ahead, now))

    @property
    def observed_at(self) -> float:
        return self._observed_at

    def is_decided(self, position: RecordPosition) -> bool:
        """Has inventory passed this position, as far as the last observation shows?"""
        decided = self._decided.get((position.topic, position.partition))
        return decided is not None and position.offset < decided

    def _ahead_of_topic(self, topic: str) -> int:
        """Requests that are consumed before everything in this topic."""
        return 0 if topic == self.priority_topic else self._moving(self.priority_topic)

    def _moving(self, topic: str) -> int:
        """Undecided requests of a topic, without its stalled partitions."""
        return self._total.get(topic, 0) - self._stalled.get(topic, 0)

    def _estimate_wait_ms(self, requests: int, now: float) -> int | None:
        if requests < BUSY_REQUESTS_MIN and now - self._moved_at < STALE_S:
            return WAIT_MS_MIN
        pause_s = max(0.0, now - self._moved_at)
        if self._pace is None:
            return int(pause_s * 1000) if pause_s > STALE_S else None
        return max(WAIT_MS_MIN, int((requests / self._pace + pause_s) * 1000))
