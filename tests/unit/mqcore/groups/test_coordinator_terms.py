"""Groups of a partition with several replicas: they load when the committed end is known, and again in each term."""

from __future__ import annotations

from mqcore.groups.commands import CommitOffsets, Describe, OffsetToCommit
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.coordinator_driver import FINE, CoordinatorDriver
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO


class ReplicatedShard(CoordinatorDriver):
    """Broker 1 has the only partition of `__consumer_offsets`, whose replicas are on three brokers."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.commit("shop", offset=5)
        self.epoch = 1

    @property
    def partition(self) -> Partition:
        return self.partitions[0]

    def lead_term(self, *, high_watermark: int | None = None) -> None:
        self.follow()
        self.epoch += 1
        if high_watermark is not None:
            self.partition.high_watermark = Offset(high_watermark)
        self.partition.lead(self._term(ONE), Membership(ONE, 11), Millis(0))
        self.lead(0)

    def follow(self) -> None:
        self.epoch += 1
        self.partition.follow(self._term(TWO), Membership(ONE, 11))

    def _term(self, leader: BrokerId) -> Term:
        return Term(leader, LeaderEpoch(self.epoch), 1, (ONE, TWO, THREE), frozenset((ONE, TWO)), 2)

    def copied(self) -> None:
        """The follower has everything."""
        log = self.partition.log
        epoch, end = LeaderEpoch(self.epoch), Offset(log.end_offset)
        fetched = ReplicaFetch(TWO, 12, epoch, end, log.epochs.epoch_at(end - 1), Offset(0))
        assert self.partition.fetched(fetched, Millis(0)) is None


def test_groups_are_loading_until_the_leader_knows_the_committed_end() -> None:
    driver = ReplicatedShard()
    driver.lead_term(high_watermark=0)
    assert driver.submit("shop", Describe()).answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.copied()
    assert driver.committed("shop") == 5


def test_the_answer_to_a_command_waits_for_the_in_sync_replicas() -> None:
    driver = ReplicatedShard()
    driver.lead_term()
    wanted = OffsetToCommit("orders", 0, Offset(6), LeaderEpoch(0), "")
    heard = driver.submit("shop", CommitOffsets("", -1, None, (wanted,)))
    assert heard.answers == []
    driver.copied()
    assert heard.answer == FINE


def test_groups_load_again_when_the_same_broker_leads_in_another_term() -> None:
    driver = ReplicatedShard()
    driver.lead_term()
    driver.lead_term()
    assert driver.committed("shop") == 5


def test_a_term_that_ends_before_its_groups_are_loaded_leaves_them_to_another_coordinator() -> None:
    driver = ReplicatedShard()
    driver.lead_term(high_watermark=0)
    driver.follow()
    assert driver.submit("shop", Describe()).answer is ErrorCode.NOT_COORDINATOR
    driver.lead_term()
    driver.copied()
    assert driver.committed("shop") == 5


def test_too_few_in_sync_replicas_refuse_a_commit_and_nothing_is_written() -> None:
    driver = ReplicatedShard()
    driver.lead_term()
    driver.partition.has_enough_replicas = False
    end = driver.partition.log_end_offset
    assert driver.commit("shop", offset=6) != FINE
    assert driver.partition.log_end_offset == end and driver.committed("shop") == 5
