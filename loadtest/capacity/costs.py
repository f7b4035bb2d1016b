"""Values: what one action of a buyer costs each part of the system, and the measured runs that say so.

A resource is a name in a table: `cpu.SERVICE` in seconds of one core, `memory.SERVICE` in MB, or a count
(`postgres.commits`, `postgres.wal_bytes`, `redis.commands`, `redis.bytes`, `broker.bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CPU = "cpu."
LOAD = f"{CPU}load"
"""The generator of the load. It shares the machine, so its CPU counts when a measured run is predicted."""
ACTIONS = ("request", "poll", "unit", "visit", "payment")
VERSION = 1


class BadCosts(ValueError):
    """The file with the measured costs is missing or malformed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Actions:
    """How often buyers did what: sent a purchase, polled, got a unit, visited the shop, paid."""

    request: int = 0
    poll: int = 0
    unit: int = 0
    visit: int = 0
    payment: int = 0

    def items(self) -> list[tuple[str, int]]:
        return [(name, getattr(self, name)) for name in ACTIONS]


@dataclass(frozen=True, slots=True)
class Run:
    """One measured rush: what buyers did, how long it took, and what each part used from its start to its end."""

    name: str
    actions: Actions
    over_s: float  # how long purchases arrived
    outcomes_s: float  # until the last buyer could see an outcome
    settled_s: float  # until the last message was delivered
    used: Mapping[str, float]

    @property
    def cpu_s(self) -> float:
        return sum(value for name, value in self.used.items() if name.startswith(CPU))


@dataclass(frozen=True, slots=True)
class Costs:
    """`per_action[action][resource]`; `idle` is what the stack uses in a second without buyers."""

    about: Mapping[str, str]
    cores: int
    busy_share: float  # of all cores' time that the saturating runs could use
    commit_ms: float  # of one row in Postgres
    idle: Mapping[str, float]
    per_action: Mapping[str, Mapping[str, float]]
    memory_mb: Mapping[str, float]  # of one process of each service, after the runs
    records_per_s: Mapping[str, float]  # that one consumer of a group works off, alone on the machine
    runs: tuple[Run, ...] = field(default=())

    def of(self, action: str, resource: str) -> float:
        return self.per_action[action].get(resource, 0.0)

    def cpu_us(self, action: str, service: str) -> float:
        """Microseconds of one core."""
        return 1e6 * self.of(action, CPU + service)

    def resources(self) -> list[str]:
        return sorted({name for costs in self.per_action.values() for name in costs} | set(self.idle))

    def predict(self, actions: Actions, seconds: float) -> dict[str, float]:
        """What each resource would need for these actions within so many seconds."""
        return {
            name: self.idle.get(name, 0.0) * seconds
            + sum(count * self.of(action, name) for action, count in actions.items())
            for name in self.resources()
        }


def as_json(costs: Costs) -> dict[str, Any]:
    return {"version": VERSION, **asdict(costs)}


def from_json(content: Mapping[str, Any]) -> Costs:
    """Raises `BadCosts`."""
    try:
        if content["version"] != VERSION:
            raise BadCosts(f"it has version {content['version']}, this program reads {VERSION}; measure again")
        runs = tuple(Run(**{**run, "actions": Actions(**run["actions"])}) for run in content["runs"])
        fields = {name: content[name] for name in Costs.__slots__ if name != "runs"}
        costs = Costs(**fields, runs=runs)
    except (KeyError, TypeError) as fault:
        raise BadCosts(f"it lacks {fault}; measure again") from fault
    missing = set(ACTIONS) - set(costs.per_action)
    if missing or costs.cores < 1 or not 0 < costs.busy_share <= 1:
        raise BadCosts(f"it is incomplete ({', '.join(sorted(missing)) or 'cores or busy_share'}); measure again")
    return costs
