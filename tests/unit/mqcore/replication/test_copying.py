"""Three brokers copy a partition, lose its leader, and lose nothing that they have acknowledged."""

from __future__ import annotations

import errno

import pytest

from mqcore.partitions.waiting_requests import COMMITTED, NotLeader
from tests.unit.mqcore.replication.replica_cluster import ALL, ONE, THREE, TWO, Cluster, epochs_in

DURABLE = {"flush.messages": "1"}


def same_logs(cluster: Cluster) -> bool:
    return cluster.stored(ONE) == cluster.stored(TWO) == cluster.stored(THREE)


@pytest.mark.parametrize("settings", [{}, DURABLE])
def test_a_record_is_acknowledged_once_all_replicas_have_it(settings: dict[str, str]) -> None:
    cluster = Cluster(settings)
    cluster.run()
    outcomes = cluster.produce(b"a")
    assert outcomes == [] and cluster.consumed(ONE) == b""
    cluster.run(20)
    assert outcomes == [COMMITTED]
    assert [cluster[broker].log_end_offset for broker in ALL] == [1, 1, 1]
    assert same_logs(cluster)


def test_acks_of_one_wait_for_the_leader_only() -> None:
    cluster = Cluster()
    assert cluster.produce(b"a", acks=1) == [COMMITTED]


def test_consumers_may_read_from_a_follower_what_it_knows_to_be_committed() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.produce(b"a")
    cluster.run(1000)  # the next answer to the follower brings the high watermark
    assert cluster.consumed(TWO) == cluster.consumed(ONE) != b""


def test_an_idle_partition_costs_one_request_in_each_half_second_and_follower() -> None:
    cluster = Cluster()
    cluster.run(1000)
    before = cluster.requests
    cluster.run(10_000)
    assert cluster.requests - before <= 2 * 20 + 2


def test_after_the_leader_is_lost_another_replica_has_every_acknowledged_record() -> None:
    cluster = Cluster()
    for number in range(20):
        cluster.produce(b"%d" % number)
        cluster.run(7)
    cluster.kill(ONE)
    cluster.elect(TWO, (TWO, THREE))
    cluster.run(1000)
    kept = cluster.consumed(TWO)
    assert len(cluster.acknowledged) > 10
    assert all(value in kept for value in cluster.acknowledged)
    assert cluster.produce(b"next") == []
    cluster.run()
    assert cluster.acknowledged[-1] == b"next"


@pytest.mark.parametrize(("loss", "settings"), [("kill", {}), ("kill", DURABLE), ("power", DURABLE)])
def test_a_returning_leader_truncates_what_was_never_committed_and_catches_up(
    loss: str, settings: dict[str, str]
) -> None:
    cluster = Cluster(settings)
    cluster.run()
    cluster.produce(b"shared")
    cluster.run()
    cluster.kill(TWO)
    cluster.kill(THREE)
    lost = cluster.produce(b"only here")
    cluster.run(5)
    cluster.kill(ONE, loss)
    cluster.restart(TWO)
    cluster.restart(THREE)
    cluster.elect(TWO, (TWO, THREE))
    cluster.run(1000)
    cluster.produce(b"newer")
    cluster.run()
    cluster.restart(ONE)
    cluster.run(1000)
    assert lost == [] or not isinstance(lost[0], type(COMMITTED))
    assert same_logs(cluster) and b"only here" not in cluster.stored(ONE)
    assert epochs_in(cluster.stored(ONE)) == [1, 2]
    assert cluster.term.isr == set(ALL)  # it has joined again


def test_a_produce_fails_when_its_term_ends() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.kill(TWO)
    outcomes = cluster.produce(b"a")
    cluster.elect(THREE, (ONE, THREE))
    assert outcomes == [NotLeader("another broker leads the partition")]


def test_a_follower_that_stops_leaves_the_isr_and_the_produce_is_acknowledged() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.kill(THREE)
    outcomes = cluster.produce(b"a")
    cluster.run(1000)
    assert outcomes == []
    cluster.run(4000)
    assert outcomes == [COMMITTED] and cluster.term.isr == {ONE, TWO}
    cluster.restart(THREE)
    cluster.run(1000)
    assert cluster.term.isr == set(ALL) and same_logs(cluster)


def test_a_new_leader_knows_the_committed_end_only_after_the_followers_have_fetched() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.produce(b"a")
    cluster.run(3)  # the followers have the record, and do not know yet that it is committed
    known: list[object] = []
    cluster.elect(TWO)
    cluster[TWO].when_committed_end_known(known.append)
    assert not cluster[TWO].knows_committed_end and known == []
    cluster.run(1000)
    assert cluster[TWO].knows_committed_end and known == [COMMITTED]


def test_a_retry_at_the_next_leader_is_recognised_as_a_duplicate() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.produce(b"a", producer=5)
    cluster.run()
    cluster.kill(ONE)
    cluster.elect(TWO, (TWO, THREE))
    cluster.run()
    cluster.produce(b"a", producer=5)
    assert cluster[TWO].log_end_offset == 1


def test_a_new_replica_of_a_log_whose_start_was_deleted_begins_there() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.kill(THREE)
    cluster.elect(ONE, (ONE, TWO))
    for _ in range(10):
        cluster.produce(b"a")
    cluster.run(1000)
    deleted: list[object] = []
    assert cluster.leader.delete_records(6) == 6
    assert not cluster.leader.is_deleted_everywhere(cluster.leader.log_start_offset)
    cluster.leader.when_deleted_everywhere(cluster.leader.log_start_offset, deleted.append)
    cluster.run(1000)
    assert deleted == [COMMITTED] and cluster[TWO].log_start_offset == 6
    cluster.restart(THREE)
    cluster.run(1000)
    assert (cluster[THREE].log_start_offset, cluster[THREE].log_end_offset) == (6, 10)
    assert cluster.term.isr == set(ALL)


def test_a_full_disk_of_a_follower_pauses_it_until_there_is_room() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.nodes[TWO].disk.fail("append", errno.ENOSPC, times=3)
    outcomes = cluster.produce(b"a")
    cluster.run(150)
    assert outcomes == []
    cluster.run(1000)
    assert outcomes == [COMMITTED] and same_logs(cluster)


def test_a_damaged_disk_takes_the_partition_of_a_follower_offline_and_not_the_others() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.nodes[TWO].disk.fail("append", errno.EIO)
    outcomes = cluster.produce(b"a")
    cluster.run(5000)
    assert cluster[TWO].is_offline
    assert outcomes == [COMMITTED] and cluster.term.isr == {ONE, THREE}


def test_the_high_watermark_survives_a_restart_in_its_checkpoint() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.produce(b"a")
    cluster.run(1000)
    cluster.nodes[TWO].durability.write_high_watermarks()
    cluster.kill(TWO)
    cluster.restart(TWO)
    assert cluster[TWO].high_watermark == 1


def test_without_a_checkpoint_a_restarted_replica_claims_nothing_to_be_committed() -> None:
    cluster = Cluster()
    cluster.run()
    cluster.produce(b"a")
    cluster.run(1000)
    cluster.kill(TWO)
    cluster.restart(TWO)
    assert cluster[TWO].high_watermark == 0 and cluster[TWO].log_end_offset == 1
