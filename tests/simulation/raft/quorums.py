"""What scenarios of quorums begin with: three voters that agree, and bugs that must make a scenario fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mqcore.identity import LeaderEpoch
from tests.simulation.raft.node import Node
from tests.simulation.raft.seeded_bugs import BUGS, planted
from tests.simulation.raft.world import World


def settled_world(node_class: type[Node] = Node) -> World:
    """Three voters, one of them active, with the same committed log."""
    world = World(1, node_class)
    world.straggler_rate = 0.0
    world.start_all()
    world.run_while(lambda: not world.is_settled())
    return world


def write(world: World, node: Node, count: int = 1) -> None:
    """Have values written and acknowledged, one after the other."""
    for _ in range(count):
        acknowledged = len(world.invariants.acknowledged)
        assert node.submit(b"value %d" % acknowledged)
        world.run_while(lambda before=acknowledged: len(world.invariants.acknowledged) == before)  # type: ignore[misc]


def followers(world: World) -> list[Node]:
    return [node for node in world.nodes.values() if node is not world.leader()]


def epoch_of(node: Node) -> LeaderEpoch:
    assert node.voter is not None
    return node.voter.epoch


@contextmanager
def expect_failure(bug_name: str) -> Iterator[type[Node]]:
    """The scenario fails once the rule is switched off."""
    bug = next(bug for bug in BUGS if bug.name == bug_name)
    with planted(bug) as node_class, pytest.raises(AssertionError):
        yield node_class
