"""What a leader remembers of a follower's requests: two partitions of one follower, whose clock the test moves."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Proposal, Term
from mqcore.replication.fetch_session import ReplicaAnswer
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from tests.unit.mqcore.apis.memory_broker import IDS, ORDERS, PAYMENTS, MemoryBroker
from tests.unit.mqcore.partitions.helpers import batch
from tests.unit.mqcore.partitions.replicas import ONE, TWO

EPOCH = LeaderEpoch(9)
LIFE = 12
"""The broker epoch of the follower."""
LAG_MS_MAX = 3000
TOPICS = {id: topic for topic, id in IDS.items()}


class Told(NamedTuple):
    """What an answer says about one topic."""

    bytes: int
    high_watermark: int


class Leader:
    """Broker 1 leads partition 0 of two topics. Broker 2 follows them."""

    def __init__(self, *, isr: tuple[BrokerId, ...] = (ONE, TWO)) -> None:
        self.broker = MemoryBroker()
        self.clock = self.broker.clock
        self.is_eligible = True
        self.fetches = ReplicaFetches(self.broker.partitions, self.clock, "INTERNAL", 1 << 20)  # type: ignore[arg-type]
        self.proposals: list[Proposal] = []
        self.isr = isr
        for topic in IDS:
            self.broker.harnesses[topic].append(batch(b"first"))
            self.partition(topic)._propose = lambda partition, proposal: self.proposals.append(proposal)
            self.lead(topic)
        self.session = 0, 0
        self.answers: list[ReplicaAnswer] = []

    def partition(self, topic: str) -> Partition:
        return self.broker.harnesses[topic].partition

    def lead(self, topic: str, partition_epoch: int = 1) -> None:
        term = Term(ONE, EPOCH, partition_epoch, (ONE, TWO), frozenset(self.isr), 1)
        rules = LeaderRules(lag_ms_max=LAG_MS_MAX)
        membership = Membership(ONE, 11, lambda broker, epoch: self.is_eligible, rules)
        self.partition(topic).lead(term, membership, self.clock.now().monotonic_ms)

    def append(self, topic: str, size: int = 10) -> None:
        self.broker.harnesses[topic].append(batch(bytes(size)))

    def ask(
        self, *topics: str, bytes_max: int = 1 << 20, life: int = LIFE, session: tuple[int, int] = (-1, -1)
    ) -> None:
        """Ask for the end of these topics, by the next request of the session."""
        wanted = []
        for topic in topics:
            log = self.partition(topic).log
            want = FetchPartition(0, EPOCH, log.end_offset, log.epochs.last_epoch, 0, 1 << 20)
            wanted.append(FetchTopic(None, IDS[topic], [want]))
        number = self.session if session == (-1, -1) else session
        request = FetchRequest(500, 1, bytes_max, 0, *number, wanted, replica_id=TWO, replica_epoch=life)
        self.fetches.serve(request, self._on_answer)

    def _on_answer(self, answer: ReplicaAnswer) -> None:
        self.answers.append(answer)
        if not answer.error:
            self.session = answer.session_id, self.session[1] + 1

    def answer(self) -> dict[str, Told]:
        """The answer to the last request, by topic."""
        self.clock.advance(0)
        (answer,) = self.answers
        self.answers.clear()
        return {TOPICS[id]: told(found) for _, id, (found,) in answer.topics if id is not None}

    def is_slow(self, topic: str) -> bool:
        """Whether the follower is proposed to leave the ISR."""
        self.proposals.clear()
        now = self.clock.now().monotonic_ms
        self.partition(topic).inform_leader(lambda leader: leader.tick(now))
        return any(TWO not in proposal.isr for proposal in self.proposals)


def told(found: FetchedPartition) -> Told:
    assert not found.error_code, ErrorCode(found.error_code).name
    size = len(found.records) if isinstance(found.records, bytes) else found.records.length  # type: ignore[union-attr]
    return Told(size, found.high_watermark)


@pytest.fixture
def leader() -> Leader:
    """Its follower has everything, has been told so, and waits."""
    made = Leader()
    made.ask(ORDERS, PAYMENTS)
    made.clock.advance(500)
    assert made.answer() == {ORDERS: Told(0, 1), PAYMENTS: Told(0, 1)}
    made.ask()
    return made


def test_an_answer_names_only_what_has_changed(leader: Leader) -> None:
    leader.append(ORDERS)
    found = leader.answer()
    assert list(found) == [ORDERS] and found[ORDERS].bytes > 0


def test_what_has_not_been_answered_stays_asked_for(leader: Leader) -> None:
    leader.append(ORDERS)
    leader.answer()
    leader.ask(ORDERS)
    leader.append(PAYMENTS)
    assert leader.answer()[PAYMENTS].bytes > 0


def test_what_has_been_answered_is_not_sent_again_before_it_is_asked_for(leader: Leader) -> None:
    leader.append(ORDERS)
    leader.answer()
    leader.ask()
    leader.append(ORDERS)
    leader.clock.advance(500)
    assert leader.answer() == {}


def test_the_high_watermark_is_told_with_the_next_answer(leader: Leader) -> None:
    leader.append(ORDERS)
    assert leader.answer()[ORDERS].high_watermark == 1
    leader.ask(ORDERS)
    assert leader.answers == []
    leader.append(PAYMENTS)
    assert leader.answer()[ORDERS] == Told(0, 2)


def test_records_without_room_in_one_answer_come_with_the_next(leader: Leader) -> None:
    leader.append(ORDERS, 2000)
    leader.answer()
    leader.ask(ORDERS, bytes_max=1500)
    leader.append(PAYMENTS, 1000)
    leader.append(ORDERS, 1000)
    assert [topic for topic, found in leader.answer().items() if found.bytes] == [PAYMENTS]
    leader.ask(PAYMENTS)
    assert leader.answer()[ORDERS].bytes > 0


def test_a_follower_whose_requests_find_nothing_new_is_not_slow_when_something_comes(leader: Leader) -> None:
    for _ in range(20):
        leader.clock.advance(500)
        leader.answer()
        leader.ask()
    leader.append(ORDERS)
    leader.clock.advance(LAG_MS_MAX)
    assert not leader.is_slow(ORDERS)


def test_a_follower_that_asked_nothing_for_a_long_time_is_slow_when_something_comes(leader: Leader) -> None:
    leader.clock.advance(2 * LAG_MS_MAX)
    leader.answer()
    leader.append(ORDERS)
    assert leader.is_slow(ORDERS)


def test_a_follower_outside_the_isr_is_proposed_as_soon_as_it_is_eligible() -> None:
    leader = Leader(isr=(ONE,))
    leader.is_eligible = False
    leader.ask(ORDERS)
    leader.clock.advance(500)
    leader.answer()
    assert leader.proposals == []
    leader.is_eligible = True
    leader.ask()
    assert [proposal.isr for proposal in leader.proposals] == [{ONE, TWO}]


def test_a_follower_that_the_controller_removes_from_the_isr_is_proposed_again(leader: Leader) -> None:
    leader.isr = (ONE,)
    leader.lead(ORDERS, partition_epoch=2)
    leader.answer()
    leader.ask()
    assert [proposal.isr for proposal in leader.proposals] == [{ONE, TWO}]


def test_requests_of_other_sessions_are_refused(leader: Leader) -> None:
    id, epoch = leader.session
    leader.ask(session=(id + 1, epoch))
    leader.ask(session=(id, epoch + 7))
    leader.ask(session=(id, epoch + 1), life=LIFE + 1)
    leader.ask(ORDERS, session=(0, 0), life=LIFE - 1)
    assert [answer.error.name for answer in leader.answers] == [
        "FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_ID_NOT_FOUND", "STALE_BROKER_EPOCH",
    ]  # fmt: skip


def test_a_new_session_replaces_the_old_one_and_begins_with_everything(leader: Leader) -> None:
    leader.ask(ORDERS, PAYMENTS, session=(0, 0))
    assert [answer.topics for answer in leader.answers] == [[]]  # of the request that waited
    leader.answers.clear()
    leader.clock.advance(500)
    assert set(leader.answer()) == {ORDERS, PAYMENTS}
    assert len(leader.partition(ORDERS).append_watchers) == 1


def test_the_end_of_a_term_is_answered_with_an_error(leader: Leader) -> None:
    term = Term(TWO, LeaderEpoch(EPOCH + 1), 2, (ONE, TWO), frozenset((ONE, TWO)), 1)
    leader.partition(ORDERS).follow(term, Membership(ONE, 11))
    assert not isinstance(leader.partition(ORDERS).role, LeaderState)
    leader.clock.advance(0)
    ((_, _, (found,)),) = leader.answers[0].topics
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
