"""Machine: when the requests of one kind are due, and how late each answer was. Times are seconds since the start."""

from __future__ import annotations


class Schedule:
    """`rate` requests per second at even distances. The rate does not depend on the answers.

    Requests that are due during the first `lead_in_s` are sent but not counted, because connections and caches are
    still cold. `seconds` is the time that counts.
    """

    def __init__(self, rate: int, seconds: float, lead_in_s: float = 0.0) -> None:
        self.rate = rate
        self._seconds, self._lead_in_s = seconds, lead_in_s
        self._total = int(rate * (lead_in_s + seconds))
        self._counted = sum(self._is_counted(self._due_at(number)) for number in range(self._total))
        self._started = 0
        self._finished = 0
        self._good_latencies: list[float] = []
        self._open: set[float] = set()  # due times of the requests that have no answer yet
        self._in_time = 0

    @property
    def is_done(self) -> bool:
        return self._finished == self._total

    def is_due(self, now: float) -> bool:
        return self._started < self._total and self._due_at(self._started) <= now

    def wait_s(self, now: float) -> float:
        """Until the next request is due; at most one second."""
        if self._started == self._total:
            return 1.0
        return min(1.0, max(0.0, self._due_at(self._started) - now))

    def start(self) -> float:
        """The next request is sent; returns when it was due."""
        due_at = self._due_at(self._started)
        self._started += 1
        self._open.add(due_at)
        return due_at

    def finish(self, due_at: float, now: float, *, is_good: bool) -> None:
        self._finished += 1
        self._open.remove(due_at)
        if is_good:
            self._in_time += self._lead_in_s <= now < self._lead_in_s + self._seconds
            if self._is_counted(due_at):
                self._good_latencies.append(now - due_at)

    @property
    def reached(self) -> float:
        """Good answers per second, until the end of the load."""
        return self._in_time / self._seconds

    @property
    def share_good(self) -> float:
        return len(self._good_latencies) / self._counted if self._counted else 1.0

    def latencies_until(self, now: float) -> list[float]:
        """Of good answers, each from the moment when its request was due. A request that still waits for its answer, or
        for a connection, counts with the time that it has waited so far."""
        waiting = [*self._open, *(self._due_at(number) for number in range(self._started, self._total))]
        return self._good_latencies + [now - due_at for due_at in waiting if self._is_counted(due_at)]

    def _due_at(self, number: int) -> float:
        return number / self.rate

    def _is_counted(self, due_at: float) -> bool:
        return due_at >= self._lead_in_s
