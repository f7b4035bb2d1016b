"""Values: what was measured, and the arithmetic on it: ratios within a repetition, medians, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from loadtest.benchmarks.gateway.memory import MemoryResult
from loadtest.benchmarks.gateway.mixed import KindResult, MixedLoad, MixedRun
from loadtest.benchmarks.gateway.servers import GATEWAY
from loadtest.benchmarks.gateway.streams import StreamsResult
from loadtest.benchmarks.gateway.throughput import Run

NEARLY_ALL = 0.85
"""A process that uses this share of a core is the limit."""
GENERATOR_LAG_MS_MAX = 5.0
STREAMS_WANTED = 20_000


@dataclass(slots=True)
class Results:
    """A part that was not measured is empty."""

    about: dict[str, str]
    cores: int
    other: str = ""  # the gateway of another commit
    runs: list[Run] = field(default_factory=list)
    steps_us: dict[str, float] = field(default_factory=dict)
    mixed: list[MixedRun] = field(default_factory=list)
    streams: StreamsResult | None = None
    memory: MemoryResult | None = None

    # ── throughput ───────────────────────────────────────────────────────────────────────────────

    def runs_of(self, view: str) -> list[Run]:
        return [run for run in self.runs if run.view == view]

    def ratios(self, peer: str, value: Callable[[Run], float] = lambda run: run.accepted_s) -> list[float]:
        """The gateway's value divided by the other view's, within each repetition."""
        pairs = zip(self.runs_of(GATEWAY), self.runs_of(peer), strict=True)
        return [value(ours) / value(theirs) for ours, theirs in pairs]

    def cpu_us(self) -> float:
        return median(run.cpu_us for run in self.runs_of(GATEWAY))

    def limited_by(self) -> str:
        """Which processes were busy while the gateway was measured."""
        ours = self.runs_of(GATEWAY)
        busy = {name: median(run.cores[name] for run in ours) for name in ours[0].cores}
        at_its_end = [name for name, used in busy.items() if used >= NEARLY_ALL]
        if at_its_end:
            return ", ".join(at_its_end)
        if sum(busy.values()) >= NEARLY_ALL * self.cores:
            return "the machine: all its cores are busy"
        return "nothing was busy: requests were waiting"

    # ── mixed load ───────────────────────────────────────────────────────────────────────────────

    def mixed_of(self, view: str, load: MixedLoad) -> list[MixedRun]:
        return [run for run in self.mixed if (run.view, run.load) == (view, load.name)]


def p99(results: Sequence[KindResult]) -> float:
    return median(each.latencies_ms["p99"] for each in results)


def is_late(run: MixedRun) -> bool:
    """The load generator could not keep up, so the latencies are partly its own."""
    return run.generator_lag_ms > GENERATOR_LAG_MS_MAX or run.generator_cores >= NEARLY_ALL


def stream_slowdowns(result: StreamsResult) -> list[float]:
    """How many times the p99 of purchases is higher beside the streams, within each repetition."""
    return [
        beside.purchases.latencies_ms["p99"] / without.purchases.latencies_ms["p99"]
        for without, beside in zip(result.without, result.beside, strict=True)
    ]


def calculated_mb(result: StreamsResult, streams: int = STREAMS_WANTED) -> float:
    """The memory of a gateway with more streams than were opened, if each costs the same."""
    return result.before_mb + streams * result.kb_per_stream / 1000
