"""Codec: from measured runs to the cost of each action.

Each run adds one action to those of the runs before, so its cost is what is left after theirs and after idling:
purchases alone, purchases with polls, purchases that get units, whole visits of buyers, visits that pay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadtest.capacity.costs import ACTIONS, Costs, Run

ONLY = {"poll": {"cpu.gateway", "cpu.redis", "redis.commands"}, "visit": {"cpu.gateway", "cpu.load"}}
"""The parts that an action reaches; what other parts used in its run is noise. A visit (sign-in, page, ticket) is
answered by a gateway from memory. Its run is slow, and batches are smaller then, which is not the visit's cost."""
SATURATING = ("request", "poll", "unit")
"""The runs that send more than the machine can do; they show which share of its cores a stack can use."""


def calibrate(
    about: Mapping[str, str],
    cores: int,
    commit_ms: float,
    idle: Mapping[str, float],
    runs: Sequence[Run],
    memory_mb: Mapping[str, float],
    records_per_s: Mapping[str, float],
) -> Costs:
    """`runs` in the order of `ACTIONS`, each named after the action that it adds."""
    if [run.name for run in runs] != list(ACTIONS):
        raise ValueError(f"needs one run for each of {', '.join(ACTIONS)}, in this order")
    found: dict[str, dict[str, float]] = {}
    for run in runs:
        count = dict(run.actions.items())[run.name]
        if count <= 0:
            raise ValueError(f"the run {run.name!r} has none of its own action")
        found[run.name] = {}
        for resource in sorted(set(run.used) | set(idle)):
            if run.name in ONLY and resource not in ONLY[run.name]:
                continue
            known = idle.get(resource, 0.0) * run.settled_s
            known += sum(
                number * found[action].get(resource, 0.0) for action, number in run.actions.items() if action in found
            )
            found[run.name][resource] = max(0.0, run.used.get(resource, 0.0) - known) / count
    busy = [run.cpu_s / run.settled_s / cores for run in runs if run.name in SATURATING]
    busy_share = min(1.0, max(busy))
    return Costs(
        dict(about), cores, busy_share, commit_ms, dict(idle), found, dict(memory_mb), dict(records_per_s), tuple(runs)
    )
