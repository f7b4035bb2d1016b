"""Quorums whose voters have lost their disks, have damaged ones, or begin with empty ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.raft.node import Node
from tests.simulation.raft.quorums import expect_failure, followers, settled_world, write
from tests.simulation.raft.troubles import flip_a_bit
from tests.simulation.raft.world import World

# ── S30: lost and damaged disks ──────────────────────────────────────────────────────────────────


def leave_a_committed_record_on_one_disk(world: World, lose: Callable[[Node], None]) -> tuple[Node, Node, Node]:
    """A record is committed by the leader and one follower. Then that follower's disk is lost or damaged, and the
    leader is down, so only the third voter, which never had the record, and the second are up."""
    leader, (second, third) = world.leader(), followers(world)
    world.isolate(third)
    write(world, leader, 3)
    world.kill(leader)
    lose(second)
    world.cuts.clear()
    return leader, second, third


def test_s30_a_voter_whose_disk_was_wiped_does_not_vote_until_it_is_adopted() -> None:
    world = settled_world()
    leader, wiped, _ = leave_a_committed_record_on_one_disk(world, world.wipe)
    world.run_for(20_000)
    assert world.leaders() == [], "the third voter would overwrite the committed records"
    leader.start()
    world.run_while(lambda: not world.has_active_leader())
    world.run_for(1_000)
    assert not world.is_settled(), "the wiped voter is an observer"
    world.adopt(wiped)
    world.run_while(lambda: not world.is_settled())
    world.kill(leader)
    world.run_while(lambda: not world.has_active_leader())


def damage(world: World) -> Callable[[Node], None]:
    def kill_and_flip(node: Node) -> None:
        world.kill(node)
        assert flip_a_bit(node, 0)
        node.start()
        assert node.log is not None and node.log.suspect_to > node.log.end

    return kill_and_flip


def damage_a_log(node_class: type[Node]) -> None:
    world = settled_world(node_class)
    leader, suspect, _ = leave_a_committed_record_on_one_disk(world, damage(world))
    world.run_for(20_000)
    assert world.leaders() == []
    leader.start()
    world.run_while(lambda: not world.is_settled())
    assert suspect.log is not None and suspect.log.suspect_to == 0
    world.kill(leader)
    world.run_while(lambda: not world.has_active_leader())


def test_a_voter_whose_damaged_log_was_cut_does_not_vote_before_it_has_caught_up() -> None:
    damage_a_log(Node)


def test_if_a_voter_with_a_damaged_log_votes_a_committed_record_is_lost() -> None:
    with expect_failure("M30") as node_class:
        damage_a_log(node_class)


def test_a_suspect_voter_is_still_suspect_after_another_start() -> None:
    world = settled_world()
    write(world, world.leader(), 3)
    node, *_ = followers(world)
    world.isolate(node)
    damage(world)(node)
    assert node.log is not None
    suspect_to = node.log.suspect_to
    world.cut_power(node)
    node.start()
    assert node.log.suspect_to == suspect_to > 0


# ── founding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", [1, 2, 3])
def test_two_empty_voters_never_elect_each_other(first: int) -> None:
    world = World(first, founder=1)
    world.nodes[2].start()
    world.nodes[3].start()
    world.run_for(20_000)
    assert world.leaders() == []
    world.nodes[1].start()
    world.run_while(lambda: not world.is_settled())
    assert world.leader().id == 1


def test_a_single_voter_grows_to_three_and_keeps_its_log() -> None:
    world = World(4)
    founder = world.nodes[1]
    founder.start()
    world.run_while(lambda: not world.has_active_leader())
    write(world, founder, 100)
    world.start_all()
    world.run_while(lambda: not world.is_settled())
    assert all(node.image.digest == founder.image.digest for node in world.nodes.values())
