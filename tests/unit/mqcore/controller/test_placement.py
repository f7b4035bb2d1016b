"""Where the replicas of new partitions go: round the racks, round the brokers, never a fenced leader."""

from __future__ import annotations

from collections import Counter

import pytest

from mqcore.controller.commands import CreatePartitions, CreateTopics, PartitionIncrease
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.brokers import Brokers


def create(brokers: Brokers, partitions: int, factor: int) -> list[tuple[int, ...]]:
    assert brokers.errors(CreateTopics((brokers.topic("orders", partitions, factor),))) == [ErrorCode.NONE]
    return [tuple(part.replicas) for part in brokers.image.topics["orders"].partitions]


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = create(Brokers(3), 12, 2)
    assert Counter(replicas[0] for replicas in placed) == {1: 4, 2: 4, 3: 4}
    assert Counter(broker for replicas in placed for broker in replicas) == {1: 8, 2: 8, 3: 8}


def test_the_partitions_of_a_failed_broker_go_to_different_brokers() -> None:
    placed = create(Brokers(3), 12, 3)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3}


@pytest.mark.parametrize("factor", [2, 3])
def test_the_replicas_of_a_partition_are_on_different_racks(factor: int) -> None:
    racks = ("a", "a", "b", "b", "c", "c")
    placed = create(Brokers(6, *racks), 24, factor)
    for replicas in placed:
        assert len({racks[broker - 1] for broker in replicas}) == factor
    assert set(Counter(replicas[0] for replicas in placed).values()) == {4}


def test_with_fewer_racks_than_replicas_every_rack_has_one() -> None:
    racks = ("a", "a", "b", "b")
    for replicas in create(Brokers(4, *racks), 8, 3):
        assert {racks[broker - 1] for broker in replicas} == {"a", "b"} and len(set(replicas)) == 3


def test_a_fenced_broker_leads_nothing_and_is_not_in_sync() -> None:
    brokers = Brokers(3)
    brokers.fall_silent(2)
    create(brokers, 6, 3)
    for part in brokers.image.topics["orders"].partitions:
        assert part.leader != 2 and 2 not in part.isr and part.replicas[-1] == 2


def test_a_fenced_broker_gets_no_replica_while_others_suffice() -> None:
    brokers = Brokers(3)
    brokers.fall_silent(2)
    assert all(2 not in replicas for replicas in create(brokers, 6, 2))


def test_without_an_active_broker_no_topic_is_created() -> None:
    brokers = Brokers(2)
    brokers.fall_silent(1, 2)
    topic = CreateTopics((brokers.topic("orders", 1, 1),))
    assert brokers.errors(topic) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    chosen = CreateTopics((brokers.topic("orders", assignment={0: (1, 2)}),))
    assert brokers.errors(chosen) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_in_a_manual_assignment_the_first_active_broker_leads() -> None:
    brokers = Brokers(3)
    brokers.fall_silent(1)
    brokers.topic_on((1, 2, 3))
    assert brokers.leader_and_isr() == (2, (2, 3))


def test_partitions_that_are_added_go_on_where_the_first_ones_ended() -> None:
    brokers = Brokers(3)
    create(brokers, 2, 2)
    brokers.submit(CreatePartitions((PartitionIncrease("orders", 3),)))
    assert brokers.partition(2).replicas == (3, 1)
