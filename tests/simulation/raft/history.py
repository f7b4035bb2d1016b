"""One history: the seed decides when the nodes start, what clients write and what goes wrong. Then everything heals,
and the quorum has to work again. `python -m tests.simulation raft 17` replays one.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import NamedTuple

from tests.simulation.raft.invariants import Broken, require
from tests.simulation.raft.node import FAST_RULES, RULES, Node
from tests.simulation.raft.troubles import PERIOD_MS, PERIODS, begin, make_troubles
from tests.simulation.raft.world import World

HEALING_MS = 12_000
WRITE_EVERY_MS = (30, 150)


class Outcome(NamedTuple):
    events: int
    acknowledged: int
    epochs: int
    trace: str


class HistoryFailed(AssertionError):
    """The message has the command that replays the history."""


def run_history(seed: int, node_class: type[Node] = Node) -> Outcome:
    world = World(seed, node_class, rules=FAST_RULES if seed % 2 else RULES)
    try:
        _run(world)
    except Exception as error:
        command = f"python -m tests.simulation raft {seed}"
        raise HistoryFailed(f"at {world.now} ms: {type(error).__name__}: {error}\nreplay: {command}") from error
    epochs = max(world.invariants.leaders)
    return Outcome(world.events, len(world.invariants.acknowledged), epochs, world.trace.hexdigest())


def _run(world: World) -> None:
    random = Random(f"{world.seed} start")
    for node in world.nodes.values():
        world.call_later(random.choice((0, 0, 500, 3_000)), node, node.start)
    for trouble in make_troubles(world.seed):
        world.call_later(trouble.at_ms, None, partial(begin, world, trouble))
    _write_for_ever(world, 0)
    _adopt_for_ever(world)
    world.run_until(PERIODS * PERIOD_MS)
    world.heal()
    acknowledged = len(world.invariants.acknowledged)
    world.run_for(HEALING_MS)
    require(len(world.invariants.acknowledged) > acknowledged + 20, "nothing is committed after healing")
    world.is_writing = False
    world.run_for(1_000)
    require(world.is_settled(), "the quorum does not settle after healing")
    world.invariants.check_acknowledged()


def _write_for_ever(world: World, number: int) -> None:
    """A client that writes to whichever node takes it."""
    if not world.is_writing:
        return
    nodes = list(world.nodes.values())
    world.client_random.shuffle(nodes)
    for node in nodes:
        if node.submit(b"value %d" % number):
            break
    delay = world.client_random.choice((0, *range(*WRITE_EVERY_MS, 10)))
    world.call_later(delay, None, partial(_write_for_ever, world, number + 1))


def _adopt_for_ever(world: World) -> None:
    """The operator lets the node with the wiped folder back in."""
    for node in world.nodes.values():
        if world.has_lost_disk and node.is_up:
            for leader in world.leaders():
                if leader.log is not None and leader.log.voters.get(node.id, node.key) != node.key:
                    world.adopt(node)
    world.call_later(700, None, partial(_adopt_for_ever, world))


__all__ = ["Broken", "HistoryFailed", "Outcome", "run_history"]
