"""Three quorums in one process: they elect, commit, lose nodes, and take them back."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.partitions.waiting_requests import CommitOutcome, NotLeader, NotLeading
from mqcore.raft.description import REPLACED_MS_MIN, FetchTimes
from mqcore.raft.founding import format_folder
from mqcore.raft.messages import FetchRequest, Response, VoterKey
from mqcore.raft.state import Leader, Progress
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.raft.quorum_nodes import RULES, SYNC_MS, Cluster, write_snapshot


@pytest.mark.parametrize("seed", range(5))
def test_three_nodes_join_commit_and_have_the_same_records(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.join()
    cluster.commit(b"a", b"b")
    cluster.run(1_000)
    first, *others = [node.values() for node in cluster.nodes.values()]
    assert list(first.values()) == [b"a", b"b"] and all(other == first for other in others)
    assert sum(node.quorum.is_active for node in cluster.nodes.values()) == 1


@pytest.mark.parametrize("seed", range(5))
def test_another_voter_takes_over_when_the_leader_dies_and_nothing_committed_is_lost(seed: int) -> None:
    cluster = Cluster(seed)
    leader = cluster.join()
    cluster.commit(b"before")
    leader.crash("kill")
    successor = cluster.elect(besides=leader.id)
    cluster.commit(b"after")
    leader.start()
    cluster.run(3_000)
    assert list(leader.values().values()) == list(successor.values().values()) == [b"before", b"after"]


def test_a_leader_that_resigns_is_followed_at_once() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    cluster.run(1_000)
    leader.quorum.resign()
    assert not leader.quorum.leads
    cluster.run(200)
    assert cluster.elect().id != leader.id


def test_an_isolated_leader_gives_up_and_tells_its_callers_that_their_records_may_be_lost() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    cluster.cut.add(leader.id)
    _, appended = leader.append(b"appended")
    _, collected = leader.append(b"collected")
    cluster.run(RULES.fetch_timeout_ms + 100)
    assert not leader.quorum.leads
    assert isinstance(appended[0], NotLeader) and isinstance(collected[0], NotLeader)
    with pytest.raises(NotLeading):
        leader.append(b"refused")
    outcomes: list[CommitOutcome] = []
    leader.quorum.when_committed(Offset(99), outcomes.append)
    assert isinstance(outcomes[0], NotLeader)
    successor = cluster.elect(besides=leader.id)
    cluster.commit(b"other")
    cluster.cut.clear()
    cluster.run(5_000)
    assert list(leader.values().values()) == list(successor.values().values()) == [b"other"]


@pytest.mark.parametrize("seed", range(10))
def test_no_power_loss_of_all_nodes_loses_a_committed_record(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.join()
    committed = []
    for number in range(6):
        cluster.commit(b"%d" % number)
        committed.append(b"%d" % number)
        cluster.elect().append(b"open")
        cluster.run(cluster.random.randrange(2 * SYNC_MS))
        for node in cluster.nodes.values():
            node.crash("power")
        for node in cluster.nodes.values():
            node.start()
        leader = cluster.elect()
        assert [value for value in leader.values().values() if value != b"open"] == committed


def test_a_follower_with_a_full_disk_catches_up_when_there_is_space_again() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    full, healthy = cluster.others(leader)
    full.disk.capacity = 0
    cluster.commit(b"a")
    cluster.run(1_000)
    assert list(healthy.values().values()) == [b"a"] and not full.values() and full.quorum.offline_reason is None
    full.disk.capacity = None
    cluster.run(1_000)
    assert list(full.values().values()) == [b"a"]


def test_a_leader_whose_disk_is_full_lets_another_voter_lead_until_there_is_space_again() -> None:
    """Its followers have room, so the cluster need not wait for it."""
    cluster = Cluster(1)
    leader = cluster.join()
    cluster.commit(b"before")
    leader.disk.capacity = 0
    with pytest.raises(OSError, match="space"):
        leader.append(b"refused")
    successor = cluster.elect(besides=leader.id)
    cluster.commit(b"meanwhile")
    cluster.run(5_000)
    assert not leader.quorum.leads and leader.quorum.offline_reason is None
    leader.disk.capacity = None
    cluster.run(5_000)
    assert list(leader.values().values()) == list(successor.values().values()) == [b"before", b"meanwhile"]


def test_a_wiped_voter_is_an_observer_until_it_is_adopted() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    end = cluster.commit(b"in the snapshot")
    write_snapshot(leader, end)
    cluster.commit(b"in the log")
    wiped = cluster.others(leader)[0]
    wiped.crash("kill")
    wiped.new_folder()
    format_folder(wiped.disk, wiped.key, 0, is_founder=False)
    wiped.start()
    cluster.run_until(lambda: list(wiped.values().values()) == [b"in the log"])
    cluster.run(1_000)
    assert wiped.quorum.snapshot == leader.quorum.snapshot
    assert list(wiped.quorum.read_snapshot()) == [b"image"]
    description = leader.quorum.describe()
    assert [observer.key for observer in description.observers] == [wiped.key]
    assert wiped.key not in [voter.key for voter in description.voters]
    answers: list[Response] = []
    leader.quorum.adopt(wiped.key, answers.append)
    assert answers[0].error is ErrorCode.NONE
    cluster.run_until(lambda: wiped.key in [voter.key for voter in leader.quorum.describe().voters])
    assert wiped.key not in [observer.key for observer in leader.quorum.describe().observers]


def test_a_lost_folder_is_not_shown_as_an_observer_after_the_adoption_of_the_new_one() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    lost = cluster.others(leader)[0]
    lost_key = lost.key
    lost.crash("kill")
    cluster.run(REPLACED_MS_MIN)
    lost.new_folder()
    format_folder(lost.disk, lost.key, 0, is_founder=False)
    lost.start()
    cluster.run_until(lambda: lost.key in [observer.key for observer in leader.quorum.describe().observers])
    cluster.run(1_000)
    answers: list[Response] = []
    leader.quorum.adopt(lost.key, answers.append)
    assert answers[0].error is ErrorCode.NONE
    cluster.run_until(lambda: lost.key in [voter.key for voter in leader.quorum.describe().voters])
    assert leader.quorum.describe().observers == ()
    assert lost_key in leader.quorum._times._times, "the leader still remembers it, it only does not show it"


def test_two_folders_of_one_node_that_both_fetch_are_both_shown() -> None:
    times, keys = FetchTimes(), [VoterKey(BrokerId(3), UUID(int=number)) for number in (1, 2)]
    requests = [FetchRequest(LeaderEpoch(1), key, 5, LeaderEpoch(1), 5) for key in keys]
    progress = {key: Progress(key, 5, Millis(0), request) for key, request in zip(keys, requests, strict=True)}
    role = Leader(0, Millis(0), Millis(0), progress)
    for now in range(0, 20_000, 500):
        for request in requests:
            times.note(request, 5, Millis(now))
    voters, observers = times.describe(VoterKey(BrokerId(1), UUID(int=9)), 5, role, {}, Millis(20_000))
    assert voters == () and [each.key for each in observers] == keys
    for now in range(20_000, 30_000, 500):
        times.note(requests[1], 5, Millis(now))
    _, observers = times.describe(VoterKey(BrokerId(1), UUID(int=9)), 5, role, {}, Millis(30_000))
    assert [each.key for each in observers] == keys[1:]


def test_only_the_leader_adopts() -> None:
    cluster = Cluster(1)
    follower = cluster.others(cluster.join())[0]
    answers: list[Response] = []
    follower.quorum.adopt(VoterKey(BrokerId(3), UUID(int=9)), answers.append)
    assert answers[0].error is ErrorCode.NOT_CONTROLLER


def test_a_node_that_is_asked_to_cut_committed_records_goes_offline_and_says_why() -> None:
    """An operator has founded a second cluster in the place of the leader."""
    cluster = Cluster(1)
    leader = cluster.join()
    cluster.commit(b"a", b"b", b"c")
    cluster.run(1_000)
    follower, other = cluster.others(leader)
    other.crash("kill")
    leader.crash("kill")
    leader.new_folder()
    format_folder(leader.disk, leader.key, 0, is_founder=True)
    leader.start()
    cluster.run(20_000)
    assert follower.quorum.offline_reason is not None and "committed" in follower.quorum.offline_reason


def test_watchers_hear_of_the_watermark_and_of_the_leader() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    follower = cluster.others(leader)[0]
    calls: list[tuple[object, ...]] = []
    follower.quorum.watchers.add(1, lambda: calls.append((follower.quorum.high_watermark, follower.quorum.leader)))
    end = cluster.commit(b"a")
    cluster.run(100)
    assert (end, leader.id) in calls
    leader.crash("kill")
    successor = cluster.elect(besides=leader.id)
    cluster.run(100)
    assert calls[-1][1] == successor.id


def test_the_times_of_fetches_tell_who_has_fallen_behind() -> None:
    cluster = Cluster(1)
    leader = cluster.join()
    cluster.run(1_000)
    behind, ahead = cluster.others(leader)
    behind.crash("kill")
    cluster.commit(b"a")
    cluster.run(1_000)
    told = {replica.key: replica for replica in leader.quorum.describe().voters}
    now = leader.clock.wall_ms()
    assert told[ahead.key].end == told[leader.key].end == leader.quorum.log.end_offset
    assert told[behind.key].end < leader.quorum.log.end_offset
    assert now - told[ahead.key].caught_up_at_ms <= RULES.fetch_wait_ms < now - told[behind.key].fetched_at_ms
