"""Machine: the circuit breakers before the queue: one for each partition that fails, and one for the whole broker.

A partition that does not acknowledge stops its own users only. The broker's breaker opens when nothing is acknowledged
any more, by any partition.
"""

from __future__ import annotations

from collections.abc import Iterable

from seckill.breaker import Breaker, Permit

Partition = tuple[str, int]


class Breakers:
    """`now` is monotonic seconds. `silence_s`: without an acknowledgement for so long, a failure is the broker's."""

    def __init__(self, open_s: float, try_s: float, silence_s: float) -> None:
        self._open_s, self._try_s, self._silence_s = open_s, try_s, silence_s
        self.of_all = self._new()
        self._of_partition: dict[Partition, Breaker] = {}
        self._acknowledged_at = float("-inf")

    def permit(self, partition: Partition | None, now: float) -> Permit:
        """May a request be sent there? `PROBE` if it is one for either of the two breakers."""
        of_all = self.of_all.permit(now)
        breaker = None if partition is None else self._of_partition.get(partition)
        if of_all is Permit.NO or breaker is None:
            return of_all
        of_partition = breaker.permit(now)
        if of_partition is Permit.NO:
            if of_all is Permit.PROBE:
                self.of_all.give_back(now)
            return Permit.NO
        return max(of_all, of_partition)

    def give_back(self, partition: Partition | None, now: float) -> None:
        """A probe was not sent."""
        self.of_all.give_back(now)
        breaker = None if partition is None else self._of_partition.get(partition)
        if breaker is not None:
            breaker.give_back(now)

    def acknowledged(self, partition: Partition, now: float) -> None:
        self._acknowledged_at = now
        self.of_all.succeeded()
        if self._of_partition:
            self._of_partition.pop(partition, None)

    def failed(self, partitions: Iterable[Partition | None], now: float) -> None:
        for partition in partitions:
            if partition is not None:
                self._of_partition.setdefault(partition, self._new()).failed(now)
        if now - self._acknowledged_at >= self._silence_s:
            self.of_all.failed(now)

    def _new(self) -> Breaker:
        return Breaker(most_failures=1, open_s=self._open_s, try_s=self._try_s)
