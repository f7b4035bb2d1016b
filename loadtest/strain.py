"""Machine: is it the generator that is slow? Fed with how late its own loop was and how much of a core it used."""

from __future__ import annotations

from typing import NamedTuple

EVERY_S = 0.1
LATE_S = 0.05
MOST_LATE = 0.05
MOST_CPU = 0.9


class Strained(NamedTuple):
    late: float  # share of looks at which the loop was late
    worst_ms: int
    cpu: float  # share of one core

    @property
    def is_too_much(self) -> bool:
        return self.late > MOST_LATE or self.cpu > MOST_CPU

    def __str__(self) -> str:
        return (
            f"the generator used {self.cpu:.0%} of a core, and its loop was late at {self.late:.0%} of the looks "
            f"(at worst by {self.worst_ms:,} ms)"
        )


WARNING = "the generator itself is the bottleneck: latencies are its own, in part. Use more processes, or a lower rate"


class Strain:
    """`note` every EVERY_S seconds. The clocks are the caller's."""

    def __init__(self, now_s: float, cpu_s: float) -> None:
        self._began_s, self._cpu_s = now_s, cpu_s
        self._looks = self._late = 0
        self._worst_s = 0.0

    def note(self, late_s: float) -> None:
        self._looks += 1
        self._late += late_s > LATE_S
        self._worst_s = max(self._worst_s, late_s)

    def so_far(self, now_s: float, cpu_s: float) -> Strained:
        took_s = max(now_s - self._began_s, 1e-9)
        late = self._late / self._looks if self._looks else 0.0
        return Strained(late, round(self._worst_s * 1000), (cpu_s - self._cpu_s) / took_s)
