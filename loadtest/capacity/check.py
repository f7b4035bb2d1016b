"""Codec: predictions for rushes on one machine, beside what was measured.

On one machine all processes share the cores. So a rush takes as long as its CPU time on all cores, unless the buyers
take longer to arrive or one process, which has one core at most, has more work than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.capacity.costs import CPU, Actions, Costs, Run

ERROR_MAX = 0.30
COUNTS = {"inventory": 2, "orders": 2}
"""Processes of the small stack; every other service has one, and Postgres uses all cores."""
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Prediction:
    seconds: float  # until the last message
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Compared:
    run: Run
    predicted: Prediction

    @property
    def errors(self) -> dict[str, float]:
        """Relative to what was measured; positive: the prediction was too high."""
        return {
            "seconds": self.predicted.seconds / self.run.settled_s - 1,
            "CPU seconds": self.predicted.cpu_s / self.run.cpu_s - 1,
        }

    @property
    def is_close(self) -> bool:
        return all(abs(error) <= ERROR_MAX for error in self.errors.values())


def predict(costs: Costs, actions: Actions, over_s: float) -> Prediction:
    seconds, cpu_s = over_s, 0.0
    for _ in range(ROUNDS):  # the idle part of the CPU grows with the time
        used = {name: value for name, value in costs.predict(actions, seconds).items() if name.startswith(CPU)}
        cpu_s = sum(used.values())
        single = max(
            value / COUNTS.get(name.removeprefix(CPU), 1) for name, value in used.items() if name != f"{CPU}postgres"
        )
        seconds = max(over_s, cpu_s / costs.cores / costs.busy_share, single)
    return Prediction(seconds, cpu_s)


def compare(costs: Costs, runs: Sequence[Run]) -> list[Compared]:
    return [Compared(run, predict(costs, run.actions, run.over_s)) for run in runs]
