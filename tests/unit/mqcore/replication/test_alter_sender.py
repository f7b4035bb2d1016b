"""Proposals leave together, count only for the term that made them, and are made when time expels a follower."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import LeaderEpoch, Millis, Offset, TopicPartition
from mqcore.links.outcome import LinkFault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Applied, Term
from mqcore.replication.alter_sender import AlterSender
from mqcore.replication.altering import AlterAnswer, AlterAsk
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import HeldFlusher
from tests.unit.mqcore.partitions.helpers import batch
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

TOPIC_ID = UUID(int=7)
LAG_MS_MAX = 1000


class Leader:
    """Broker 1 leads partitions 0 and 1; all three replicas are in sync, and none fetches by itself."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.hosted = HostedPartitions(MemoryDisk(), self.clock, HeldFlusher(), is_clean=False)
        self.asks: list[tuple[AlterAsk, Callable[[AlterAnswer | LinkFault], None]]] = []
        self.sender = AlterSender(
            ONE,
            self.hosted,
            self.clock,
            lambda: 11,
            lambda ask, on_answer: self.asks.append((ask, on_answer)),
            LAG_MS_MAX,
        )
        for index in (0, 1):
            self.hosted.open(TopicPartition("orders", index), TOPIC_ID, {})
            self.lead(index)
            self[index].append(batch(b"a"), self.clock.wall_ms())
        self.sender.start()

    def new_sender(self) -> AlterSender:
        def alter(ask: AlterAsk, on_answer: Callable[[AlterAnswer | LinkFault], None]) -> None:
            self.asks.append((ask, on_answer))

        return AlterSender(ONE, self.hosted, self.clock, lambda: 11, alter, LAG_MS_MAX)

    def __getitem__(self, index: int) -> Partition:
        found = self.hosted.by_id(TOPIC_ID, index)
        assert found is not None
        return found

    def lead(self, index: int, epoch: int = 5) -> None:
        term = Term(ONE, LeaderEpoch(epoch), epoch, (ONE, TWO, THREE), frozenset((ONE, TWO, THREE)), 2)
        membership = Membership(ONE, 11, lambda broker, broker_epoch: True, LeaderRules(lag_ms_max=LAG_MS_MAX))
        self[index].lead(term, membership, self.clock.now().monotonic_ms)

    def fetch(self, index: int) -> None:
        """Broker 2 has everything."""
        partition = self[index]
        epoch, end = partition.leader_epoch, Offset(partition.log_end_offset)
        fetched = ReplicaFetch(TWO, 12, epoch, end, partition.log.epochs.epoch_at(end - 1), Offset(0))
        assert partition.fetched(fetched, self.clock.now().monotonic_ms) is None

    def isr(self, index: int) -> set[int]:
        role = self[index].role
        assert isinstance(role, LeaderState)
        return set(role.isr.committed)


def test_followers_that_lag_are_expelled_with_one_request_for_all_partitions() -> None:
    leader = Leader()
    leader.clock.advance(LAG_MS_MAX // 2)
    assert leader.asks == []
    for index in (0, 1):
        leader.fetch(index)
    leader.clock.advance(LAG_MS_MAX)
    ((ask, _),) = leader.asks
    assert [sorted(proposal.isr) for proposal in ask.proposals.values()] == [[ONE, TWO], [ONE, TWO]]
    assert ask.broker_epoch == 11


def test_an_applied_proposal_moves_the_high_watermark() -> None:
    leader = Leader()
    for index in (0, 1):
        leader.fetch(index)
    leader.clock.advance(2 * LAG_MS_MAX)
    ((ask, on_answer),) = leader.asks
    assert leader[0].high_watermark == 0
    on_answer(AlterAnswer({key: Applied(proposal.isr, 6) for key, proposal in ask.proposals.items()}))
    assert leader.isr(0) == {ONE, TWO} and leader[0].high_watermark == 1


def test_a_proposal_without_an_answer_is_made_again_after_a_pause() -> None:
    leader = Leader()
    leader.clock.advance(2 * LAG_MS_MAX)
    ((_, on_answer),) = leader.asks
    on_answer(LinkFault("no controller"))
    assert len(leader.asks) == 1
    leader.clock.advance(600)
    assert len(leader.asks) == 2


def test_while_a_request_is_in_flight_new_proposals_wait_for_its_answer() -> None:
    leader = Leader()
    leader.fetch(0)
    leader.fetch(1)
    leader[1].inform_leader(lambda state: state.tick(leader.clock.now().monotonic_ms))
    leader.clock.advance(LAG_MS_MAX + 100)
    assert len(leader.asks) == 1
    leader.lead(0, epoch=6)
    leader.clock.advance(3 * LAG_MS_MAX)
    assert len(leader.asks) == 1
    leader.asks[0][1](LinkFault("late"))
    assert len(leader.asks) == 2


def test_a_proposal_of_a_term_that_is_over_is_not_sent() -> None:
    leader = Leader()
    late = Millis(leader.clock.now().monotonic_ms + 2 * LAG_MS_MAX)
    leader[0].inform_leader(lambda state: state.tick(late))
    leader.lead(0, epoch=6)
    leader.clock.advance(0)
    assert leader.asks == []


def test_a_proposal_of_a_term_that_goes_on_is_sent_after_the_turn() -> None:
    leader = Leader()
    late = Millis(leader.clock.now().monotonic_ms + 2 * LAG_MS_MAX)
    leader[0].inform_leader(lambda state: state.tick(late))
    assert leader.asks == []
    leader.clock.advance(0)
    assert len(leader.asks) == 1


def test_an_answer_about_an_earlier_term_changes_nothing() -> None:
    leader = Leader()
    leader.clock.advance(2 * LAG_MS_MAX)
    ((ask, on_answer),) = leader.asks
    leader.lead(0, epoch=6)
    on_answer(AlterAnswer({key: Applied(frozenset({ONE}), 6) for key in ask.proposals}))
    assert leader.isr(0) == {ONE, TWO, THREE} and leader.isr(1) == {ONE}


def test_after_close_nothing_is_sent() -> None:
    leader = Leader()
    leader.sender.close()
    leader.clock.advance(10 * LAG_MS_MAX)
    assert leader.asks == []
