"""The classic ways in which a quorum loses data or its leader, each as one short story.

S25 to S30 are the scenarios of KRaft's and Raft's own tests; S26 needs one voter only and is in its unit test. Each
rule is switched off in a control, which must fail.
"""

from __future__ import annotations

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
from tests.simulation.raft.quorums import epoch_of, expect_failure, followers, settled_world, write
from tests.simulation.raft.seeded_bugs import BUGS, planted

# ── S25: votes ───────────────────────────────────────────────────────────────────────────────────


def ask_for_votes_around_a_power_loss(node_class: type[Node], nth: int, when: When) -> None:
    world = settled_world(node_class)
    voter, *_ = followers(world)
    candidates = [node for node in world.nodes.values() if node is not voter]
    epoch = LeaderEpoch(epoch_of(voter) + 10)
    voter.disk.crash_at(nth, when)
    for candidate in candidates:
        request = VoteRequest(epoch, candidate.key, voter.key, epoch, 1_000, pre_vote=False)
        world.send(candidate, voter.id, request, lambda outcome: None)
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


# ── the controls mean something ──────────────────────────────────────────────────────────────────


def test_every_seeded_bug_names_a_test_that_exists() -> None:
    import tests.simulation.raft.test_quorum_disks as disks
    import tests.simulation.raft.test_quorum_scenarios as scenarios
    import tests.simulation.raft.test_quorum_simulation as simulation
    import tests.unit.mqcore.raft.test_voter_leading as rules

    files = {module.__name__.rpartition(".")[2] + ".py": module for module in (disks, scenarios, simulation, rules)}
    for bug in BUGS:
        file, _, test = bug.killed_by.partition("::")
        assert hasattr(files[file], test), bug.name


def test_a_settled_world_has_one_leader_and_nothing_uncommitted() -> None:
    world = settled_world()
    leader = world.leader()
    assert leader.voter is not None and isinstance(leader.voter.state.role, Leader)
    assert leader.log is not None and leader.log.end == leader.voter.high_watermark
    assert Snapshots(leader.disk, "__cluster_metadata-0").ids()[-1] >= SnapshotId(0, LeaderEpoch(0))
