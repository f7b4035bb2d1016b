"""The classic ways in which a quorum loses data or its leader, each as one short story.

S25 to S30 are the scenarios of KRaft's and Raft's own tests; S26 needs one voter only and is in its unit test. Each
rule is switched off in a control, which must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import LeaderEpoch
from mqcore.log.topic_config import LogConfig
from mqcore.raft.messages import SnapshotId, VoteRequest
from mqcore.raft.quorum_log import QuorumLog
from mqcore.raft.snapshots import Snapshots
from mqcore.raft.state import Leader
from mqcore.wire.records import Record
from tests.simulation.raft.node import Node
from tests.simulation.raft.seeded_bugs import BUGS, planted
from tests.simulation.raft.troubles import flip_a_bit
from tests.simulation.raft.world import World

Scenario = Callable[[type[Node]], None]


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


# ── S25: votes ───────────────────────────────────────────────────────────────────────────────────


def ask_for_votes_around_a_power_loss(node_class: type[Node], nth: int, when: When) -> None:
    world = settled_world(node_class)
    voter, *_ = followers(world)
    candidates = [node for node in world.nodes.values() if node is not voter]
    epoch = LeaderEpoch(epoch_of(voter) + 10)
    voter.disk.crash_at(nth, when)
    for candidate in candidates:
        request = VoteRequest(epoch, candidate.key, voter.key, epoch, 1_000, pre_vote=False)
        world.send(candidate, voter.id, request)
        world.run_for(400)


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_s25_a_voter_that_loses_power_never_votes_twice_in_an_epoch(nth: int, when: When) -> None:
    ask_for_votes_around_a_power_loss(Node, nth, when)


def test_s25_without_persisting_first_it_votes_twice() -> None:
    with expect_failure("M23") as node_class:
        ask_for_votes_around_a_power_loss(node_class, 1, "before")


# ── S27, S28: leaders and voters that are cut off ────────────────────────────────────────────────


def cut_the_leader_off(node_class: type[Node]) -> None:
    world = settled_world(node_class)
    old = world.leader()
    acknowledged = len(world.invariants.acknowledged)
    world.isolate(old)
    old.submit(b"never committed")
    world.run_for(6_000)
    assert old not in world.leaders()
    assert len(world.invariants.acknowledged) == acknowledged
    assert world.leader() is not old and world.has_active_leader()
    world.heal()
    world.run_for(3_000)
    assert world.is_settled()


def test_s27_a_leader_that_is_cut_off_resigns() -> None:
    cut_the_leader_off(Node)


def test_s27_without_check_quorum_it_stays_in_office() -> None:
    with expect_failure("M28") as node_class:
        cut_the_leader_off(node_class)


def cut_a_follower_off(node_class: type[Node]) -> None:
    world = settled_world(node_class)
    leader, (follower, _) = world.leader(), followers(world)
    epoch = epoch_of(leader)
    world.isolate(follower)
    world.run_for(20_000)
    world.heal()
    world.run_for(5_000)
    assert world.leader() is leader and epoch_of(leader) == epoch
    assert world.is_settled()


def test_s28_a_voter_that_was_cut_off_does_not_depose_a_healthy_leader() -> None:
    cut_a_follower_off(Node)


def test_s28_without_pre_vote_it_deposes_the_leader() -> None:
    with expect_failure("M27") as node_class:
        cut_a_follower_off(node_class)


def test_a_voter_that_can_send_but_not_receive_does_not_depose_a_healthy_leader() -> None:
    world = settled_world()
    leader, (follower, _) = world.leader(), followers(world)
    epoch = epoch_of(leader)
    for other in world.nodes.values():
        world.cut(other.id, follower.id)
    world.run_for(20_000)
    world.heal()
    world.run_for(5_000)
    assert epoch_of(world.leader()) == epoch


def test_a_leader_that_resigns_is_followed_by_the_most_advanced_voter_at_once() -> None:
    world = settled_world()
    old, (ahead, behind) = world.leader(), followers(world)
    world.isolate(behind)
    write(world, old, 3)
    world.cuts.clear()
    world.resign(old)
    world.run_while(lambda: not world.has_active_leader(), 100)
    assert world.leader() is ahead


# ── S29: snapshots ───────────────────────────────────────────────────────────────────────────────


def test_s29_a_follower_below_the_log_start_gets_the_snapshot() -> None:
    world = settled_world()
    leader, (behind, _) = world.leader(), followers(world)
    world.kill(behind)
    write(world, leader, 60)
    assert leader.log is not None and leader.log.start > 20
    behind.start()
    world.run_while(lambda: not world.is_settled())
    assert behind.image.digest == leader.image.digest


SMALL_SEGMENTS = LogConfig(retention_ms=-1, file_delete_delay_ms=0, segment_bytes=200)


def log_of_ten(disk: MemoryDisk) -> QuorumLog:
    log = QuorumLog(disk, 0, SMALL_SEGMENTS)
    for number in range(10):
        log.append_records([Record(0, 0, None, b"%d" % number)], LeaderEpoch(1 + number // 5), 0)
    log.sync()
    return log


def check_after_a_crash(disk: MemoryDisk) -> int:
    """Everything is in the snapshot or in the log behind it. Returns where the log begins."""
    log = QuorumLog(disk, 0, SMALL_SEGMENTS)
    assert log.end == 10 and log.durable == 10
    assert log.start == (log.snapshot.end if log.snapshot else 0)
    assert [header.base_offset for header in log.headers(log.start)] == list(range(log.start, 10))
    if log.snapshot is not None:
        assert [record.value for record in log.snapshots.read(log.snapshot).records] == [b"below 8"]
    assert log.append_records([Record(0, 0, None, b"more")], LeaderEpoch(3), 0) == 11
    return log.start


def write_a_snapshot_with_a_crash(nth: int, when: When, kind: Literal["kill", "power"]) -> int | None:
    """None if the snapshot needs fewer changes of the disk than `nth`."""
    disk = MemoryDisk(nth)
    log = log_of_ten(disk)
    disk.crash_at(nth, when)
    try:
        log.write_snapshot(8, [Record(0, 0, None, b"below 8")], 0)
    except Crashed:
        disk.crash(kind)
        return check_after_a_crash(disk)
    return None


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_s29_a_crash_at_any_change_of_a_snapshot_loses_nothing(when: When, kind: Literal["kill", "power"]) -> None:
    starts: list[int] = []
    while (start := write_a_snapshot_with_a_crash(len(starts) + 1, when, kind)) is not None:
        starts.append(start)
    assert len(starts) > 10 and set(starts) == {0, 8}


def test_s29_without_the_order_a_crash_loses_the_log() -> None:
    bug = next(bug for bug in BUGS if bug.name == "M31")
    with planted(bug), pytest.raises(Exception, match="no snapshot holds"):
        for nth in range(1, 40):
            write_a_snapshot_with_a_crash(nth, "after", "power")


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_s29_a_crash_at_any_change_of_a_fetched_snapshot_leaves_the_old_log_or_the_snapshot(
    when: When, kind: Literal["kill", "power"]
) -> None:
    source = MemoryDisk(0)
    leader = log_of_ten(source)
    leader.write_snapshot(8, [Record(0, 0, None, b"below 8")], 0)
    assert leader.snapshot is not None
    content, _ = leader.snapshots.read_part(leader.snapshot, 0, 1 << 20)
    outcomes = set()
    for nth in range(1, 100):
        disk = MemoryDisk(nth)
        log = QuorumLog(disk, 0)
        for _ in range(20):  # a longer log of an epoch that the leader does not know
            log.append_records([Record(0, 0, None, b"diverged")], LeaderEpoch(1), 0)
        log.sync()
        disk.crash_at(nth, when)
        try:
            log.store_part(leader.snapshot, 0, content[:100], is_last=False)
            log.store_part(leader.snapshot, 100, content[100:], is_last=True)
            break
        except Crashed:
            disk.crash(kind)
            reopened = QuorumLog(disk, 0)
            outcomes.add((reopened.start, reopened.end, reopened.last_epoch))
    assert outcomes == {(0, 20, 1), (8, 8, 2)}


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


# ── the controls mean something ──────────────────────────────────────────────────────────────────


def test_every_seeded_bug_names_a_test_that_exists() -> None:
    import tests.simulation.raft.test_quorum_scenarios as scenarios
    import tests.simulation.raft.test_quorum_simulation as simulation
    import tests.unit.mqcore.raft.test_voter as voter

    files = {module.__name__.rpartition(".")[2] + ".py": module for module in (scenarios, simulation, voter)}
    for bug in BUGS:
        file, _, test = bug.killed_by.partition("::")
        assert hasattr(files[file], test), bug.name


def test_a_settled_world_has_one_leader_and_nothing_uncommitted() -> None:
    world = settled_world()
    leader = world.leader()
    assert leader.voter is not None and isinstance(leader.voter.state.role, Leader)
    assert leader.log is not None and leader.log.end == leader.voter.high_watermark
    assert Snapshots(leader.disk, "__cluster_metadata-0").ids()[-1] >= SnapshotId(0, LeaderEpoch(0))
