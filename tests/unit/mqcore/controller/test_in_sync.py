"""AlterPartition: a leader's proposal counts only if everything it knows is still true."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.controller.cluster_commands import Activate, AlteredPartition, UnregisterBroker
from mqcore.controller.commands import DeleteTopics
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.brokers import EPOCH, Brokers, Proposal


def one_behind() -> Brokers:
    """Broker 1 leads a partition on three brokers; broker 3 is active and not in sync."""
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3))
    brokers.fall_silent(3)
    brokers.unfence(3)
    assert brokers.leader_and_isr() == (1, (1, 2))
    return brokers


brokers = pytest.fixture(one_behind, name="brokers")


def test_a_replica_joins_and_leaves_the_in_sync_replicas(brokers: Brokers) -> None:
    assert brokers.alter(Proposal((1, 2, 3))) == AlteredPartition(BrokerId(1), LeaderEpoch(0), (1, 2, 3), 2)  # type: ignore[arg-type]
    assert brokers.alter(Proposal((1,))) == AlteredPartition(BrokerId(1), LeaderEpoch(0), (1,), 3)  # type: ignore[arg-type]
    assert brokers.leader_and_isr() == (1, (1,))


def test_a_proposal_of_the_present_isr_voids_every_older_proposal(brokers: Brokers) -> None:
    """A leader that does not know what happened to a proposal makes this one, and counts on the old ISR again."""
    epoch = brokers.partition().partition_epoch
    outcome = brokers.alter(Proposal((1, 2)))
    assert isinstance(outcome, AlteredPartition) and outcome.partition_epoch == epoch + 1
    assert brokers.alter(Proposal((1, 2, 3), partition_epoch=epoch)) is ErrorCode.INVALID_UPDATE_VERSION
    assert brokers.leader_and_isr() == (1, (1, 2)) and brokers.partition().leader_epoch == 0


@pytest.mark.parametrize(
    ("proposal", "error"),
    [
        (Proposal((1, 2, 3), broker_epoch=1), ErrorCode.STALE_BROKER_EPOCH),
        (Proposal((1, 2, 3), by=9, leader_epoch=0), ErrorCode.STALE_BROKER_EPOCH),
        (Proposal((1, 2, 3), controller_epoch=EPOCH - 1), ErrorCode.NOT_CONTROLLER),
        (Proposal((1, 2, 3), controller_epoch=EPOCH + 1), ErrorCode.NOT_CONTROLLER),
        (Proposal((1, 2, 3), leader_epoch=1), ErrorCode.NOT_CONTROLLER),
        (Proposal((1, 2, 3), partition_epoch=2), ErrorCode.NOT_CONTROLLER),
        (Proposal((1, 2, 3), partition_epoch=0), ErrorCode.INVALID_UPDATE_VERSION),
        (Proposal((1, 2, 3), by=2), ErrorCode.INVALID_REQUEST),
        (Proposal((2, 3)), ErrorCode.INVALID_REQUEST),
        (Proposal(()), ErrorCode.INVALID_REQUEST),
        (Proposal((1, 1)), ErrorCode.INVALID_REQUEST),
        (Proposal((1, 9)), ErrorCode.INVALID_REQUEST),
        (Proposal((1, 2, 3), topic_id=UUID(int=99)), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_proposal_from_another_state_is_refused_and_changes_nothing(
    brokers: Brokers, proposal: Proposal, error: ErrorCode
) -> None:
    facts = len(brokers.facts)
    assert brokers.alter(proposal) is error
    assert len(brokers.facts) == facts


def test_a_leader_of_an_earlier_epoch_is_fenced(brokers: Brokers) -> None:
    brokers.fall_silent(1)
    assert brokers.alter(Proposal((2, 3), leader_epoch=0)) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_controller_that_the_leader_does_not_name_is_the_active_one(brokers: Brokers) -> None:
    assert isinstance(brokers.alter(Proposal((1, 2, 3), controller_epoch=-1)), AlteredPartition)


def test_a_proposal_from_before_a_fencing_does_not_bring_the_fenced_replica_back(brokers: Brokers) -> None:
    """S12: the controller fences broker 2 while the leader's proposal with it is under way."""
    epoch = brokers.partition().partition_epoch
    brokers.fall_silent(2)
    assert brokers.alter(Proposal((1, 2, 3), partition_epoch=epoch)) is ErrorCode.INVALID_UPDATE_VERSION
    assert brokers.leader_and_isr() == (1, (1,))


def test_a_replica_that_was_registered_again_meanwhile_does_not_join(brokers: Brokers) -> None:
    """S13, KIP-903: broker 3 caught up, lost its disk and registered again; the leader still means its earlier life."""
    known = tuple(brokers.epoch_of(broker) for broker in (1, 2, 3))
    brokers.start(3)
    brokers.unfence(3)
    assert brokers.alter(Proposal((1, 2, 3), member_epochs=known)) is ErrorCode.INELIGIBLE_REPLICA
    assert brokers.leader_and_isr() == (1, (1, 2))


@pytest.mark.parametrize("trouble", ["fenced", "stopping", "unregistered"])
def test_a_replica_that_is_not_active_does_not_join(brokers: Brokers, trouble: str) -> None:
    if trouble == "fenced":
        brokers.heartbeat(3, fence=True)
    elif trouble == "stopping":
        brokers.heartbeat(3, stop=True)
    else:
        brokers.ask(UnregisterBroker(BrokerId(3)))
    assert brokers.alter(Proposal((1, 2, 3))) is ErrorCode.INELIGIBLE_REPLICA


def test_a_topic_that_was_deleted_and_created_again_is_another_topic(brokers: Brokers) -> None:
    """Trap 23: name, partition and epochs are the same; only the id differs."""
    old = brokers.image.topics["orders"].id
    brokers.submit(DeleteTopics((("orders", None),)))
    brokers.topic_on((1, 2, 3))
    assert brokers.alter(Proposal((1,), topic_id=old)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert brokers.leader_and_isr() == (1, (1, 2, 3))


def test_a_controller_elected_again_refuses_a_proposal_from_before(brokers: Brokers) -> None:
    """Trap 11. A controller in between refused the proposal, and the leader took it back. Nothing of the partition has
    changed since, so only the epoch of the controller tells the two requests apart."""
    late = Proposal((1, 2, 3), controller_epoch=EPOCH)
    brokers.ask(Activate(EPOCH + 2, brokers.machine.sessions.next_offset))
    assert brokers.alter(late) is ErrorCode.NOT_CONTROLLER
    assert brokers.leader_and_isr() == (1, (1, 2))
    assert isinstance(brokers.alter(Proposal((1, 2, 3), controller_epoch=EPOCH + 2)), AlteredPartition)
