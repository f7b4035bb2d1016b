"""Machine: the circuit breakers of the queue: one for each failing partition, and one for the whole broker.

A partition that does not acknowledge stops only its own users. The broker's breaker opens when no partition
acknowledges any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from seckill.resilience.circuit_breaker import CircuitBreaker, Permit

Partition = tuple[str, int]


class QueueBreakers:
    """`now` is monotonic seconds. `silence_s`: after this time without an acknowledgement, a failure is the
    broker's."""

    def __init__(self, open_s: float, try_s: float, silence_s: float) -> None:
        self._open_s, self._try_s, self._silence_s = open_s, try_s, silence_s
        self.of_broker = self._new()
        self._of_partition: dict[Partition, CircuitBreaker] = {}
        self._acknowledged_at = float("-inf")

    def permit(self, partition: Partition | None, now: float) -> Permit:
        """May a request be sent to this partition? PROBE if it is the trial request of either breaker."""
        of_broker = self.of_broker.permit(now)
        breaker = None if partition is None else self._of_partition.get(partition)
        if of_broker is Permit.NO or breaker is None:
            return of_broker
        of_partition = breaker.permit(now)
        if of_partition is Permit.NO:
            if of_broker is Permit.PROBE:
                self.of_broker.return_probe(now)
            return Permit.NO
        return max(of_broker, of_partition)

    def give_back(self, partition: Partition | None, now: float) -> None:
        """Return a PROBE that was not sent."""
        self.of_broker.return_probe(now)
        breaker = None if partition is None else self._of_partition.get(partition)
        if breaker is not None:
            breaker.return_probe(now)

    def record_acknowledged(self, partition: Partition, now: float) -> None:
        self._acknowledged_at = now
        self.of_broker.record_success()
        if self._of_partition:
            self._of_partition.pop(partition, None)

    def record_failed(self, partitions: Iterable[Partition | None], now: float) -> None:
        for partition in partitions:
            if partition is not None:
                self._of_partition.setdefault(partition, self._new()).record_failure(now)
        if now - self._acknowledged_at >= self._silence_s:
            self.of_broker.record_failure(now)

    def _new(self) -> CircuitBreaker:
        return CircuitBreaker(failures_max=1, open_seconds=self._open_s, probe_seconds=self._try_s)
