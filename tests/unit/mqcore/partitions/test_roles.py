"""A partition has a role in each term. What waited in the term before fails."""

from __future__ import annotations

import pytest

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.follower import Append, FollowerState, StartAt, Truncate
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReadRequest, ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER, Proposal, Term, only_replica
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome, NotLeader
from mqcore.wire.batches import read_header, stamp
from mqcore.wire.records import Record
from tests.unit.mqcore.partitions.helpers import DURABLE, NOW_MS, PartitionHarness, batch, error_name, offsets_of
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

EPOCH = LeaderEpoch(5)
NOW = Millis(100_000)
ME = Membership(ONE, 11, lambda broker, epoch: True, LeaderRules())


def term(
    leader: BrokerId, *isr: BrokerId, epoch: int = EPOCH, partition_epoch: int = 1, replicas: int = 3, min_isr: int = 2
) -> Term:
    members = frozenset(isr or (ONE, TWO, THREE))
    return Term(leader, LeaderEpoch(epoch), partition_epoch, (ONE, TWO, THREE)[:replicas], members, min_isr)


class Replica(PartitionHarness):
    def lead_term(self, of: Term) -> None:
        self.partition.lead(of, ME, NOW)

    def follow(self, of: Term) -> None:
        self.partition.follow(of, ME)

    def copied(self, by: BrokerId = TWO, end: int | None = None) -> None:
        log = self.partition.log
        offset = log.end_offset if end is None else end
        last = log.epochs.epoch_at(offset - 1)
        fetched = ReplicaFetch(by, 12, self.partition.leader_epoch, Offset(offset), last, Offset(0))
        assert self.partition.fetched(fetched, NOW) is None


def no_sync(partition: Partition) -> None:
    pass


def fetched(offset: int, high_watermark: int = 0) -> Append:
    data = batch(b"x")
    stamp(data, offset, EPOCH)
    return Append(data, (read_header(data),), Offset(high_watermark), Offset(0))


def outcomes_of(partition: Partition, end: int, acks: int = -1) -> list[CommitOutcome]:
    outcomes: list[CommitOutcome] = []
    partition.when_acknowledged(Offset(end), acks, outcomes.append)
    return outcomes


def test_without_a_role_nothing_is_appended_or_read() -> None:
    harness = Replica()
    partition = Partition(
        harness.partition.name, harness.partition.topic_id, harness.partition.log, harness.partition.producers, no_sync
    )
    assert error_name(partition.append(batch(), NOW_MS)) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(partition.read(ReadRequest(0, 100))) == "NOT_LEADER_OR_FOLLOWER"
    assert outcomes_of(partition, 0) == [NotLeader("this broker has no role in the partition yet")]


def test_the_high_watermark_of_an_only_replica_is_the_end_of_its_log() -> None:
    harness = Replica()
    harness.append()
    assert harness.partition.high_watermark == 1 and harness.partition.knows_committed_end


def test_with_several_replicas_it_waits_for_them() -> None:
    harness = Replica()
    harness.lead_term(term(ONE, ONE, TWO))
    _, end = offsets_of(harness.append())
    waiting = outcomes_of(harness.partition, end)
    assert outcomes_of(harness.partition, end, acks=1) == [COMMITTED]
    assert (waiting, harness.partition.high_watermark) == ([], 0)
    harness.copied()
    assert (waiting, harness.partition.high_watermark) == ([COMMITTED], 1)


def test_a_durable_leader_counts_itself_only_after_its_sync() -> None:
    harness = Replica(DURABLE)
    harness.lead_term(term(ONE, ONE, TWO))
    _, end = offsets_of(harness.append())
    waiting = outcomes_of(harness.partition, end)
    harness.copied()
    assert waiting == []
    harness.sync()
    assert waiting == [COMMITTED]


def test_an_only_replica_that_gets_others_keeps_what_it_has_committed() -> None:
    harness = Replica()
    harness.lead_term(only_replica(ONE, EPOCH))
    harness.append()
    harness.lead_term(term(ONE, ONE, partition_epoch=2, min_isr=1))  # the others are being added
    harness.append()
    assert harness.partition.high_watermark == 2
    harness.lead_term(term(ONE, ONE, TWO, partition_epoch=3, min_isr=1))
    harness.append()
    assert harness.partition.high_watermark == 2
    harness.copied()
    assert harness.partition.high_watermark == 3


@pytest.mark.parametrize("successor", [TWO, ONE, NO_LEADER])
def test_when_a_term_ends_waiting_requests_fail(successor: BrokerId) -> None:
    harness = Replica()
    harness.lead_term(term(ONE, ONE, TWO))
    _, end = offsets_of(harness.append())
    partition = harness.partition
    waiting = outcomes_of(partition, end)
    partition.when_committed_end_known(waiting.append)
    partition.when_deleted_everywhere(Offset(1), waiting.append)
    following = term(successor, epoch=EPOCH + 1)
    harness.lead_term(following) if successor == ONE else harness.follow(following)
    assert [type(outcome) for outcome in waiting if outcome != COMMITTED] == [NotLeader] * 2


def test_within_a_term_the_leader_learns_and_nothing_fails() -> None:
    harness = Replica()
    harness.lead_term(term(ONE, ONE, TWO))
    _, end = offsets_of(harness.append())
    waiting, role = outcomes_of(harness.partition, end), harness.partition.role
    harness.lead_term(term(ONE, ONE, partition_epoch=2))
    assert harness.partition.role is role and waiting == [COMMITTED]
    assert not harness.partition.has_enough_replicas
    harness.lead_term(term(ONE, ONE, partition_epoch=2, min_isr=1))  # only the topic's setting has changed
    assert harness.partition.has_enough_replicas


def test_the_same_term_as_a_follower_keeps_its_open_request() -> None:
    harness = Replica()
    harness.follow(term(TWO))
    role = harness.partition.role
    harness.follow(term(TWO, partition_epoch=2))
    assert harness.partition.role is role
    harness.partition.follow(term(TWO, partition_epoch=3), ME._replace(broker_epoch=12))  # registered again
    assert isinstance(harness.partition.role, FollowerState) and harness.partition.role is not role


def test_a_follower_forgets_its_own_epoch_in_which_nothing_was_written() -> None:
    harness = Replica()
    harness.append()
    harness.lead_term(term(ONE, epoch=4))
    assert harness.partition.log.epochs.last_epoch == 4
    harness.follow(term(TWO, epoch=5))
    assert harness.partition.log.epochs.last_epoch == 3


def test_without_a_leader_the_partition_waits() -> None:
    harness = Replica()
    harness.follow(term(NO_LEADER))
    assert harness.partition.role is None and not harness.partition.leads
    assert error_name(harness.append()) == "NOT_LEADER_OR_FOLLOWER"


def test_an_offline_partition_takes_no_role() -> None:
    harness = Replica()
    harness.partition.go_offline("disk")
    harness.lead_term(term(ONE))
    harness.follow(term(TWO))
    assert harness.partition.role is None and error_name(harness.append()) == "KAFKA_STORAGE_ERROR"


def test_a_follower_wakes_consumers_when_it_learns_the_high_watermark() -> None:
    harness = Replica()
    harness.follow(term(TWO))
    woken: list[int] = []
    harness.partition.watchers.add("fetch", lambda: woken.append(harness.partition.high_watermark))
    harness.partition.carry_out(fetched(0), Millis(NOW_MS))
    assert (woken, harness.fetch(0)) == ([], [])
    harness.partition.carry_out(fetched(1, high_watermark=1), Millis(NOW_MS))
    assert (woken, harness.fetch(0)) == ([1], [0])


@pytest.mark.parametrize("step", [Truncate(Offset(1)), StartAt(Offset(5))])
def test_a_cut_lowers_what_was_known_of_the_log(step: Truncate | StartAt) -> None:
    harness = Replica()
    kept: list[int] = []
    harness.append()
    harness.append()
    harness.partition.before_cut = kept.append
    harness.partition.cleaned_to = 2
    harness.follow(term(TWO))
    harness.partition.carry_out(step, Millis(NOW_MS))
    partition = harness.partition
    assert kept == ([1] if isinstance(step, Truncate) else [0])
    assert partition.cuts == 1 and partition.cleaned_to <= kept[0]
    assert partition.high_watermark <= partition.log_end_offset


def test_a_follower_knows_the_producers_of_the_batches_that_it_copies_and_forgets_those_it_cuts() -> None:
    harness = Replica()
    harness.follow(term(TWO))
    data = batch(producer=7)
    stamp(data, 0, EPOCH)
    step = Append(data, (read_header(data),), Offset(0), Offset(0))
    harness.partition.carry_out(step, Millis(NOW_MS))
    assert len(harness.partition.producers) == 1
    harness.partition.carry_out(Truncate(Offset(0)), Millis(NOW_MS))
    assert len(harness.partition.producers) == 0


def test_a_follower_that_joins_makes_the_leader_propose_it() -> None:
    proposals: list[Proposal] = []
    harness = Replica()
    partition = Partition(
        harness.partition.name,
        harness.partition.topic_id,
        harness.partition.log,
        harness.partition.producers,
        no_sync,
        propose=lambda of, proposal: proposals.append(proposal),
    )
    harness.partition = partition
    harness.lead_term(term(ONE, ONE))
    harness.copied(TWO)
    (proposal,) = proposals
    assert proposal.isr == {ONE, TWO}


def test_a_changed_setting_reaches_the_role() -> None:
    harness = Replica()
    harness.lead_term(term(ONE, ONE, TWO))
    harness.partition.reconfigure(LogConfig.from_settings(DURABLE))
    assert isinstance(harness.partition.role, LeaderState) and harness.partition.role.rules.durable_only
    harness.follow(term(TWO, epoch=6))
    harness.partition.reconfigure(LogConfig.from_settings({}))
    assert isinstance(harness.partition.role, FollowerState) and not harness.partition.role.durable_only


def test_records_of_the_broker_itself_need_enough_replicas() -> None:
    harness = Replica()
    harness.lead_term(term(ONE, ONE))
    with pytest.raises(OSError, match="too few replicas"):
        harness.partition.append_records([Record(0, NOW_MS, b"k", b"v")])
    harness.follow(term(TWO, epoch=6))
    with pytest.raises(OSError, match="does not lead"):
        harness.partition.append_records([Record(0, NOW_MS, b"k", b"v")])
