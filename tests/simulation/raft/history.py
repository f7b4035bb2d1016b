"""One history: the seed decides when the nodes start, what clients write and what goes wrong. Then everything heals,
and the quorum has to work again.

    python -m tests.simulation.raft.history --seed 17           replay one history
    python -m tests.simulation.raft.history --from 0 --to 1000  run many; stops at the first that fails
    python -m tests.simulation.raft.history --from 0 --to 300 --bug M25
"""

from __future__ import annotations

import argparse
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
        command = f"python -m tests.simulation.raft.history --seed {seed}"
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Run histories of the metadata quorum")
    parser.add_argument("--seed", type=int, help="replay one history")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--to", type=int, default=100, dest="end")
    parser.add_argument("--bug", help="with this seeded bug")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.end) if chosen.seed is None else [chosen.seed]
    from tests.simulation.raft.seeded_bugs import BUGS, planted

    total = acknowledged = elections = 0
    for seed in seeds:
        if chosen.bug:
            bug = next(bug for bug in BUGS if bug.name == chosen.bug)
            try:
                with planted(bug) as node_class:
                    run_history(seed, node_class)
            except HistoryFailed as failure:
                print(f"{bug.name} dies at seed {seed}: {failure}")
                return
            continue
        outcome = run_history(seed)
        total += outcome.events
        acknowledged += outcome.acknowledged
        elections += outcome.epochs
        if chosen.seed is not None:
            print(outcome)
        elif (seed + 1) % 100 == 0:
            print(f"{seed + 1 - chosen.first} histories", flush=True)
    print(f"{len(seeds)} histories, {total} events, {elections} epochs, {acknowledged} acknowledged writes")


if __name__ == "__main__":
    main()

__all__ = ["Broken", "HistoryFailed", "Outcome", "run_history"]
