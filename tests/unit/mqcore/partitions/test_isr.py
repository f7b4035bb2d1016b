"""Which replicas a leader must count on while the controller has not answered yet."""

from __future__ import annotations

from random import Random

from mqcore.identity import BrokerId
from mqcore.partitions.isr import Isr
from mqcore.partitions.terms import AlterOutcome, Applied, NotApplied, Proposal, Unknown
from tests.unit.mqcore.partitions.replicas import BROKER_EPOCHS, ONE, THREE, TWO, term

ALL, TWO_OF_THREE, ALONE = frozenset({ONE, TWO, THREE}), frozenset({ONE, TWO}), frozenset({ONE})


def propose(isr: Isr, members: frozenset[BrokerId]) -> Proposal:
    proposal = isr.propose(members, BROKER_EPOCHS)
    assert proposal is not None
    return proposal


def test_a_proposed_member_counts_before_the_controller_answers() -> None:
    isr = Isr(term(ONE, TWO))
    assert isr.maximal() == TWO_OF_THREE
    proposal = propose(isr, ALL)
    assert isr.maximal() == ALL and isr.committed == TWO_OF_THREE
    assert proposal.partition_epoch == 20 and proposal.broker_epochs == BROKER_EPOCHS


def test_an_expelled_member_counts_until_the_controller_has_agreed() -> None:
    isr = Isr(term())
    proposal = propose(isr, ALONE)
    assert isr.maximal() == ALL
    assert isr.settle(proposal, Applied(ALONE, 21))
    assert isr.maximal() == ALONE and isr.partition_epoch == 21


def test_a_refused_proposal_no_longer_counts() -> None:
    isr = Isr(term(ONE, TWO))
    assert isr.settle(propose(isr, ALL), NotApplied())
    assert isr.maximal() == TWO_OF_THREE and isr.is_certain


def test_a_proposal_with_an_unknown_outcome_counts_until_the_partition_epoch_moves() -> None:
    isr = Isr(term(ONE, TWO))
    isr.settle(propose(isr, ALL), Unknown())
    assert isr.maximal() == ALL and not isr.is_certain
    isr.settle(propose(isr, ALL), NotApplied())  # this says nothing about the first one
    assert isr.maximal() == ALL
    assert not isr.learn(term(ONE, TWO))
    assert isr.maximal() == ALL
    assert isr.learn(term(ONE, TWO, partition_epoch=21))
    assert isr.maximal() == TWO_OF_THREE and isr.is_certain


def test_after_an_unknown_outcome_the_committed_isr_may_be_proposed_to_void_the_older_proposal() -> None:
    isr = Isr(term(ONE, TWO))
    assert isr.propose(TWO_OF_THREE, BROKER_EPOCHS) is None
    isr.settle(propose(isr, ALL), Unknown())
    isr.settle(propose(isr, TWO_OF_THREE), Applied(TWO_OF_THREE, 21))
    assert isr.maximal() == TWO_OF_THREE and isr.is_certain


def test_only_one_proposal_is_open_at_a_time() -> None:
    isr = Isr(term(ONE, TWO))
    propose(isr, ALL)
    assert isr.propose(ALONE, BROKER_EPOCHS) is None


def test_an_answer_to_a_proposal_that_the_metadata_have_overtaken_changes_nothing() -> None:
    isr = Isr(term(ONE, TWO))
    old = propose(isr, ALL)
    isr.learn(term(ONE, partition_epoch=21))
    new = propose(isr, TWO_OF_THREE)
    for outcome in (Applied(ALL, 21), NotApplied(), Unknown()):
        assert not isr.settle(old, outcome)
    assert isr.proposed is new and isr.committed == ALONE


class Optimist(Isr):
    """A leader that takes every error for a refusal."""

    def settle(self, proposal: Proposal, outcome: AlterOutcome) -> bool:
        return super().settle(proposal, NotApplied() if isinstance(outcome, Unknown) else outcome)


def survives(isr: Isr, random: Random) -> bool:
    """Whether the maximal ISR always contains what the controller has committed, in a random order of proposals,
    answers, lost answers, late requests and metadata."""
    committed, epoch = TWO_OF_THREE, 20
    late: list[Proposal] = []  # the leader has given up on these, but they are still on their way
    for _ in range(60):
        members = frozenset({ONE}) | {broker for broker in (TWO, THREE) if random.random() < 0.6}
        proposal = isr.propose(members, BROKER_EPOCHS)
        fate = random.choice(["answered", "refused", "answer lost", "late", "lost"])
        outcome: AlterOutcome = Unknown()
        if proposal is not None:
            if fate == "refused":
                outcome = NotApplied()
            elif fate == "late":
                late.append(proposal)
            elif fate != "lost" and proposal.partition_epoch == epoch:
                committed, epoch = proposal.isr, epoch + 1
                outcome = Applied(committed, epoch) if fate == "answered" else Unknown()
            isr.settle(proposal, outcome)
        if late and random.random() < 0.3:
            read = late.pop(random.randrange(len(late)))
            if read.partition_epoch == epoch:
                committed, epoch = read.isr, epoch + 1
        if random.random() < 0.2:
            isr.learn(term(*committed, partition_epoch=epoch))
        isr.check()
        if not committed <= isr.maximal():
            return False
    return True


def test_in_any_order_of_events_the_maximal_isr_contains_what_the_controller_has_committed() -> None:
    assert all(survives(Isr(term(ONE, TWO)), Random(seed)) for seed in range(300))


def test_a_leader_that_takes_every_error_for_a_refusal_misses_members_in_such_orders() -> None:
    """The negative control of the test above."""
    assert not all(survives(Optimist(term(ONE, TWO)), Random(seed)) for seed in range(30))
