"""Which answer of the controller says what about a proposal."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.identity import LeaderEpoch, TopicIdPartition
from mqcore.links.outcome import LinkFault
from mqcore.partitions.terms import Applied, NotApplied, Proposal, Unknown
from mqcore.replication.altering import AlterAnswer, AlterAsk, AlterPartitions
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.partitions.replicas import ONE, TWO

A, B = TopicIdPartition(UUID(int=1), 0), TopicIdPartition(UUID(int=1), 1)
APPLIED = Applied(frozenset({ONE, TWO}), 21)


def proposal(epoch: int = 5) -> Proposal:
    return Proposal(LeaderEpoch(epoch), 20, frozenset({ONE, TWO}), {ONE: 11, TWO: 12})


def request(altering: AlterPartitions) -> AlterAsk:
    ask = altering.request(11)
    assert ask is not None
    return ask


def test_proposals_that_wait_share_one_request() -> None:
    altering, one, two = AlterPartitions(ONE), proposal(), proposal()
    assert altering.request(11) is None
    altering.propose(A, one)
    altering.propose(B, two)
    ask = request(altering)
    assert ask.proposals == {A: one, B: two} and (ask.broker, ask.broker_epoch) == (ONE, 11)
    settled = altering.answered(ask, AlterAnswer({A: APPLIED, B: ErrorCode.INELIGIBLE_REPLICA}))
    assert settled == [(A, one, APPLIED), (B, two, NotApplied())]


def test_there_is_one_request_at_a_time() -> None:
    altering = AlterPartitions(ONE)
    altering.propose(A, proposal())
    ask = request(altering)
    altering.propose(B, proposal())
    assert altering.request(11) is None
    altering.answered(ask, LinkFault("reset"))
    assert list(request(altering).proposals) == [B], "the first proposal is not sent again"


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.NONE])
def test_only_a_refusal_of_the_proposal_itself_says_that_it_is_not_applied(error: ErrorCode) -> None:
    altering = AlterPartitions(ONE)
    altering.propose(A, proposal())
    ((_, _, outcome),) = altering.answered(request(altering), AlterAnswer({A: error}))
    is_refusal = error.name in ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED")
    assert outcome == (NotApplied() if is_refusal else Unknown())
    altering.propose(A, proposal())
    ((_, _, outcome),) = altering.answered(request(altering), AlterAnswer({A: APPLIED}, error))
    assert outcome == Unknown()


@pytest.mark.parametrize("answer", [LinkFault("timed out"), AlterAnswer({}), AlterAnswer({B: APPLIED})])
def test_without_an_answer_the_outcome_is_unknown(answer: AlterAnswer | LinkFault) -> None:
    altering = AlterPartitions(ONE)
    altering.propose(A, proposal())
    ((_, _, outcome),) = altering.answered(request(altering), answer)
    assert outcome == Unknown()


def test_a_late_answer_is_dropped() -> None:
    altering = AlterPartitions(ONE)
    altering.propose(A, proposal())
    first = request(altering)
    altering.answered(first, LinkFault("timed out"))
    altering.propose(A, proposal())
    second = request(altering)
    assert altering.answered(first, AlterAnswer({A: APPLIED})) == []
    assert altering.answered(second, AlterAnswer({A: APPLIED}))
    assert altering.answered(second, AlterAnswer({A: APPLIED})) == []


def test_a_proposal_of_an_earlier_term_that_was_not_sent_is_replaced_or_withdrawn() -> None:
    altering, newer = AlterPartitions(ONE), proposal(6)
    altering.propose(A, proposal(5))
    altering.propose(A, newer)
    altering.propose(B, proposal(5))
    altering.withdraw(B)
    assert request(altering).proposals == {A: newer}
