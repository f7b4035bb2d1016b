"""Moving a partition: replicas are added, catch up, and replace the others; a move can be cancelled or replaced."""

from __future__ import annotations

import pytest

from mqcore.controller.cluster_commands import AlteredPartition
from mqcore.controller.reassigning import reassignments
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.brokers import Brokers, Proposal


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers(4)
    brokers.topic_on((1, 2))
    return brokers


def moving(brokers: Brokers) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = brokers.partition()
    return partition.replicas, partition.removing, partition.adding


def test_a_move_adds_replicas_first_and_keeps_the_leader(brokers: Brokers) -> None:
    assert brokers.reassign((3, 4)) is ErrorCode.NONE
    assert moving(brokers) == ((3, 4, 1, 2), (1, 2), (3, 4))
    assert brokers.leader_and_isr() == (1, (1, 2)) and brokers.partition().leader_epoch == 0
    assert [topic.name for topic, _ in reassignments(brokers.image)] == ["orders"]


def test_a_move_ends_when_all_added_replicas_are_in_sync(brokers: Brokers) -> None:
    brokers.reassign((3, 4))
    assert isinstance(brokers.alter(Proposal((1, 2, 3))), AlteredPartition)
    assert moving(brokers) == ((3, 4, 1, 2), (1, 2), (3, 4))
    assert brokers.alter(Proposal((1, 2, 3, 4))) is ErrorCode.NEW_LEADER_ELECTED
    assert moving(brokers) == ((3, 4), (), ()) and brokers.leader_and_isr() == (3, (3, 4))
    assert not list(reassignments(brokers.image))


def test_a_leader_that_stays_leads_in_a_new_epoch_so_that_removed_replicas_notice(brokers: Brokers) -> None:
    brokers.reassign((1, 3))
    assert brokers.alter(Proposal((1, 2, 3))) is ErrorCode.NEW_LEADER_ELECTED
    assert moving(brokers) == ((1, 3), (), ()) and brokers.leader_and_isr() == (1, (1, 3))
    assert brokers.partition().leader_epoch == 1


def test_removing_a_replica_takes_effect_at_once(brokers: Brokers) -> None:
    assert brokers.reassign((2,)) is ErrorCode.NONE
    assert moving(brokers) == ((2,), (), ()) and brokers.leader_and_isr() == (2, (2,))


def test_a_move_does_not_leave_only_replicas_that_are_out_of_sync(brokers: Brokers) -> None:
    brokers.fall_silent(2)
    brokers.reassign((2,))
    assert moving(brokers) == ((2, 1), (1,), ()) and brokers.leader_and_isr() == (1, (1,))
    brokers.unfence(2)
    brokers.alter(Proposal((1, 2)))
    assert moving(brokers) == ((2,), (), ()) and brokers.leader_and_isr() == (2, (2,))


def test_a_new_order_of_the_same_replicas_changes_the_preferred_leader_only(brokers: Brokers) -> None:
    assert brokers.reassign((2, 1)) is ErrorCode.NONE
    assert moving(brokers) == ((2, 1), (), ()) and brokers.partition().leader == 1


def test_a_move_to_the_present_assignment_changes_nothing(brokers: Brokers) -> None:
    facts = len(brokers.facts)
    assert brokers.reassign((1, 2)) is ErrorCode.NONE and len(brokers.facts) == facts


def test_a_cancelled_move_leaves_the_replicas_from_before(brokers: Brokers) -> None:
    brokers.reassign((3, 4))
    brokers.alter(Proposal((1, 2, 3)))
    assert brokers.reassign(None) is ErrorCode.NONE
    assert set(brokers.partition().replicas) == {1, 2} and not brokers.partition().is_reassigning
    assert brokers.leader_and_isr() == (1, (1, 2))


def test_a_move_that_is_replaced_still_goes_back_to_the_replicas_from_before_it(brokers: Brokers) -> None:
    brokers.reassign((3, 4))
    brokers.reassign((4, 2))
    assert moving(brokers) == ((4, 2, 3, 1), (3, 1), (4,))
    brokers.reassign(None)
    assert {1, 2} <= set(brokers.partition().replicas) and brokers.partition().leader == 1


def test_a_move_back_to_the_replicas_from_before_ends_the_move(brokers: Brokers) -> None:
    brokers.reassign((3, 4))
    brokers.alter(Proposal((1, 2, 3)))
    assert brokers.reassign((1, 2)) is ErrorCode.NONE
    assert moving(brokers) == ((1, 2), (), ()) and brokers.leader_and_isr() == (1, (1, 2))


def test_a_move_is_not_cancelled_if_the_replicas_from_before_lack_records(brokers: Brokers) -> None:
    brokers.reassign((3, 4))
    brokers.alter(Proposal((1, 2, 3)))
    brokers.fall_silent(1, 2)
    assert brokers.leader_and_isr() == (3, (3,))
    assert brokers.reassign(None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_an_impossible_move_is_refused(brokers: Brokers, replicas: tuple[int, ...] | None, error: ErrorCode) -> None:
    assert brokers.reassign(replicas) is error


def test_a_move_may_be_forbidden_to_change_the_replication_factor(brokers: Brokers) -> None:
    assert brokers.reassign((1, 2, 3), may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert brokers.reassign((3, 4), may_change_factor=False) is ErrorCode.NONE


def test_a_partition_that_does_not_exist_cannot_move(brokers: Brokers) -> None:
    assert brokers.reassign((1,), index=3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
