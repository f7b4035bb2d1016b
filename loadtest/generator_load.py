"""Machine: is the load generator itself the bottleneck? Judged by the delay of its event loop and by its CPU."""

from __future__ import annotations

from typing import NamedTuple

CHECK_EVERY_S = 0.1
LATE_S = 0.05
LATE_SHARE_MAX = 0.05
CPU_SHARE_MAX = 0.9

WARNING = (
    "the load generator itself is a bottleneck, so the latencies are partly its own; use more processes or a lower rate"
)


class GeneratorLoad(NamedTuple):
    late: float  # share of checks at which the event loop was late
    worst_ms: int
    cpu: float  # share of one core

    @property
    def is_too_high(self) -> bool:
        return self.late > LATE_SHARE_MAX or self.cpu > CPU_SHARE_MAX

    def __str__(self) -> str:
        return (
            f"the generator used {self.cpu:.0%} of a core, and its event loop was late at {self.late:.0%} of the checks"
            f" (at worst by {self.worst_ms:,} ms)"
        )


class LoadMonitor:
    """Call `note` every CHECK_EVERY_S seconds. The caller provides the clocks."""

    def __init__(self, now_s: float, cpu_s: float) -> None:
        self._began_s, self._cpu_s = now_s, cpu_s
        self._checks = self._late = 0
        self._worst_s = 0.0

    def note(self, late_s: float) -> None:
        self._checks += 1
        self._late += late_s > LATE_S
        self._worst_s = max(self._worst_s, late_s)

    def load(self, now_s: float, cpu_s: float) -> GeneratorLoad:
        took_s = max(now_s - self._began_s, 1e-9)
        late = self._late / self._checks if self._checks else 0.0
        return GeneratorLoad(late, round(self._worst_s * 1000), (cpu_s - self._cpu_s) / took_s)
