"""The four simulations in one form: a seed goes in, and what the history contained comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.simulation.cluster.history import run_one as run_cluster
from tests.simulation.controller.controller_world import run_history as run_controller
from tests.simulation.raft.history import run_history as run_raft
from tests.simulation.raft.troubles import make_troubles
from tests.simulation.replication.history_run import planned_troubles
from tests.simulation.replication.history_run import run_history as run_replication


class Counts(NamedTuple):
    """`events`: messages, timers and syncs; of the controller, its decisions."""

    events: int
    faults: int
    elections: int
    trace: str


Tell = Callable[[str], None]


class Kind(NamedTuple):
    name: str
    what: str
    is_of_machines: bool
    run: Callable[[int, Tell], Counts]
    """Raises `AssertionError` if anything is wrong in the history of this seed."""


def _raft(seed: int, tell: Tell) -> Counts:
    troubles = make_troubles(seed)
    for trouble in troubles:
        tell(str(trouble))
    outcome = run_raft(seed)
    return Counts(outcome.events, len(troubles), outcome.epochs, outcome.trace)


def _replication(seed: int, tell: Tell) -> Counts:
    world = run_replication(seed)
    troubles = planned_troubles(world)
    for trouble in troubles:
        tell(str(trouble))
    return Counts(world.events.count, len(troubles), world.elections, world.events.trace_hash)


def _controller(seed: int, tell: Tell) -> Counts:
    world = run_controller(seed)
    for offset, fact in enumerate(world.log):
        tell(f"{offset} {fact}")
    assert not world.violations, world.violations
    return Counts(len(world.log), world.troubles.count, world.epoch, world.trace())


def _cluster(seed: int, tell: Tell) -> Counts:
    world = run_cluster(seed, tell)
    return Counts(world.network.delivered, world.faults, world.checks.elections, world.trace.hexdigest()[:16])


KINDS: Final = (
    Kind("raft", "three voters of the metadata quorum", True, _raft),
    Kind("replication", "three replicas of two partitions, their controller and clients", True, _replication),
    Kind("controller", "the controller, four brokers that register and fail, and an operator", True, _controller),
    Kind("cluster", "three whole brokers and their clients, with real frames, logs and listeners", False, _cluster),
)
