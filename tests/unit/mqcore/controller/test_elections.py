"""Who leads a partition: from the in-sync replicas, or from all if the topic or an operator accepts a loss."""

from __future__ import annotations

import pytest

from mqcore.controller.cluster_commands import Election
from mqcore.controller.facts import NO_LEADER, ResourceType
from mqcore.controller.sessions import ControllerRules
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.brokers import Brokers, Proposal
from tests.unit.mqcore.controller.cluster_driver import alter, edits, set_to

UNCLEAN = "unclean.leader.election.enable"


def test_the_first_replica_that_is_in_sync_and_active_becomes_leader() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 3, 2))
    brokers.fall_silent(1)
    assert brokers.leader_and_isr() == (3, (3, 2))


def test_a_change_that_names_a_leader_grows_both_epochs_and_any_other_only_the_partition_epoch() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3))
    brokers.fall_silent(3)
    assert (brokers.partition().leader_epoch, brokers.partition().partition_epoch) == (0, 1)
    brokers.fall_silent(1, 3)
    assert (brokers.partition().leader_epoch, brokers.partition().partition_epoch) == (1, 2)


def test_a_replica_out_of_sync_never_leads() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    brokers.fall_silent(2)
    brokers.heartbeat(2)  # it is back, and not in sync yet
    brokers.fall_silent(1)
    assert brokers.leader_and_isr() == (NO_LEADER, (1,))
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (1, (1,))


def test_the_last_replica_in_sync_leads_again_when_it_returns() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    brokers.fall_silent(2)
    brokers.fall_silent(1, 2)
    brokers.unfence(2)
    assert brokers.leader_and_isr() == (NO_LEADER, (1,))
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (1, (1,)) and brokers.partition().leader_epoch == 2


def test_a_topic_that_allows_it_gets_a_leader_that_may_lack_records() -> None:
    """S17: the new leader is the only replica in sync, so the others truncate to its log."""
    brokers = Brokers(2)
    brokers.topic_on((1, 2), unclean_leader_election_enable="true")
    brokers.fall_silent(2)
    brokers.unfence(2)
    brokers.fall_silent(1)
    assert brokers.leader_and_isr() == (2, (2,))
    brokers.unfence(1)
    assert brokers.leader_and_isr() == (2, (2,))


def test_a_clean_leader_is_preferred_to_an_unclean_one() -> None:
    brokers = Brokers(3)
    brokers.topic_on((1, 2, 3), unclean_leader_election_enable="true")
    brokers.fall_silent(2)
    brokers.unfence(2)
    brokers.fall_silent(1)
    assert brokers.leader_and_isr() == (3, (3,))


def test_unclean_elections_can_be_allowed_for_the_whole_cluster_and_forbidden_for_a_topic() -> None:
    brokers = Brokers(2)
    brokers.submit(alter(edits("", set_to(UNCLEAN, "true"), kind=ResourceType.BROKER)))
    brokers.topic_on((1, 2), name="orders")
    brokers.topic_on((1, 2), name="stock", unclean_leader_election_enable="false")
    brokers.fall_silent(2)
    brokers.unfence(2)
    brokers.fall_silent(1)
    assert (brokers.partition().leader, brokers.partition(name="stock").leader) == (2, NO_LEADER)


# Elections that an operator asks for


def test_an_operator_may_elect_a_leader_that_lacks_records() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    brokers.fall_silent(2)
    brokers.unfence(2)
    assert brokers.elect(Election.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    brokers.fall_silent(1)
    assert brokers.elect(Election.UNCLEAN) is ErrorCode.NONE
    assert brokers.leader_and_isr() == (2, (2,))


def test_without_an_active_replica_even_an_unclean_election_fails() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1,))
    brokers.fall_silent(1)
    assert brokers.elect(Election.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_preferred_leader_leads_again_when_an_operator_asks_for_it_and_it_is_in_sync() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    assert brokers.elect(Election.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    brokers.fall_silent(1)
    brokers.unfence(1)
    assert brokers.elect(Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    brokers.alter(Proposal((2, 1)))
    assert brokers.elect(Election.PREFERRED) is ErrorCode.NONE
    assert brokers.leader_and_isr() == (1, (2, 1))


@pytest.mark.parametrize("election", Election)
def test_a_partition_that_does_not_exist_cannot_be_elected(election: Election) -> None:
    brokers = Brokers(1)
    brokers.topic_on((1,))
    assert brokers.elect(election, index=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Balance


def after_a_failure(rules: ControllerRules | None = None) -> Brokers:
    """Broker 1 is back and in sync, but broker 2 still leads its partition."""
    brokers = Brokers(2, rules=rules)
    brokers.topic_on((1, 2))
    brokers.fall_silent(1)
    brokers.unfence(1)
    brokers.alter(Proposal((2, 1)))
    assert brokers.partition().leader == 2
    return brokers


def pass_minutes(brokers: Brokers, minutes: int) -> None:
    for _ in range(minutes * 20):
        brokers.pass_time(3_000)
        for broker in (1, 2):
            brokers.heartbeat(broker)
        brokers.run_ticks()


def test_leadership_returns_to_the_preferred_replica_after_a_while() -> None:
    brokers = after_a_failure()
    pass_minutes(brokers, 6)
    assert brokers.partition().leader == 1


def test_leadership_stays_if_the_balance_is_switched_off() -> None:
    brokers = after_a_failure(ControllerRules(balance_interval_ms=None))
    pass_minutes(brokers, 6)
    assert brokers.partition().leader == 2


def test_a_topic_that_is_allowed_an_unclean_election_later_gets_its_leader_at_the_next_balance() -> None:
    brokers = Brokers(2)
    brokers.topic_on((1, 2))
    brokers.fall_silent(2)
    brokers.unfence(2)
    brokers.fall_silent(1)
    brokers.submit(alter(edits("orders", set_to(UNCLEAN, "true"))))
    for _ in range(120):
        brokers.pass_time(3_000)
        brokers.heartbeat(2)
        brokers.run_ticks()
    assert brokers.leader_and_isr() == (2, (2,))
