"""Deleting topics, adding partitions, and the messages of Apache Kafka 4.3 for rejected requests."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from mqcore.controller.commands import (
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    PartitionIncrease,
)
from mqcore.controller.topics import TopicDefaults
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.cluster_driver import Cluster


def create(cluster: Cluster, *args: object, **kwargs: object) -> ErrorCode:
    (error,) = cluster.errors(CreateTopics((cluster.topic(*args, **kwargs),)))  # type: ignore[arg-type]
    return error


# Deleting


def test_a_topic_is_deleted_by_name_or_by_id() -> None:
    cluster = Cluster()
    cluster.create("orders", "stock")
    orders, stock = (cluster.image.topics[name].id for name in ("orders", "stock"))
    answers = cluster.submit(DeleteTopics((("orders", None), (None, stock))))
    assert answers == (DeletedTopic("orders", orders), DeletedTopic("stock", stock))
    assert not cluster.image.topics and not cluster.image.topics_by_id


def test_a_missing_topic_is_unknown_by_name_and_by_id() -> None:
    errors = Cluster().errors(DeleteTopics((("orders", None), (None, uuid4()))))
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(("name", "topic_id"), [(None, None), ("orders", UUID(int=5))])
def test_a_topic_must_be_given_by_name_or_by_id_and_not_by_both(name: str | None, topic_id: UUID | None) -> None:
    cluster = Cluster()
    cluster.create("orders")
    assert cluster.errors(DeleteTopics(((name, topic_id),))) == [ErrorCode.INVALID_REQUEST]
    assert cluster.image.topics


def test_a_topic_given_twice_by_name_and_by_id_is_not_deleted() -> None:
    cluster = Cluster()
    cluster.create("orders")
    topic_id = cluster.image.topics["orders"].id
    errors = cluster.errors(DeleteTopics((("orders", None), (None, topic_id))))
    assert errors == [ErrorCode.INVALID_REQUEST] * 2 and cluster.image.topics


def test_deletion_of_topics_can_be_disabled() -> None:
    cluster = Cluster(defaults=TopicDefaults(1, 1, delete_enabled=False))
    cluster.create("orders")
    assert cluster.errors(DeleteTopics((("orders", None),))) == [ErrorCode.TOPIC_DELETION_DISABLED]


def test_internal_topics_can_be_neither_deleted_nor_extended() -> None:
    cluster = Cluster()
    cluster.submit(CreateTopics((cluster.topic("__consumer_offsets", 3),), internal=True))
    assert cluster.errors(DeleteTopics((("__consumer_offsets", None),))) == [ErrorCode.INVALID_REQUEST]
    assert cluster.errors(CreatePartitions((PartitionIncrease("__consumer_offsets", 4),))) == [
        ErrorCode.INVALID_REQUEST
    ]


# Growing


def test_new_partitions_follow_the_existing_ones() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=1)
    assert cluster.submit(CreatePartitions((PartitionIncrease("orders", 3),))) == (None,)
    assert [part.replicas for part in cluster.image.topics["orders"].partitions] == [(1,), (2,), (1,)]


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_the_number_of_partitions_can_only_increase(count: int) -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=2)
    assert cluster.errors(CreatePartitions((PartitionIncrease("orders", count),))) == [ErrorCode.INVALID_PARTITIONS]


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        (((2,), (1,)), ErrorCode.NONE),
        (((2,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((2,), (1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((2,), (3,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((2,), ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_client_can_assign_new_partitions(assignments: tuple[tuple[BrokerId, ...], ...], error: ErrorCode) -> None:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=1)
    assert cluster.errors(CreatePartitions((PartitionIncrease("orders", 3, assignments),))) == [error]


def test_each_invalid_increase_is_rejected_alone() -> None:
    cluster = Cluster()
    cluster.create("orders", "stock")
    wanted = tuple(PartitionIncrease(name, 2) for name in ("orders", "nope", "stock", "stock"))
    assert cluster.errors(CreatePartitions(wanted)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_validate_only_checks_an_increase_without_effect() -> None:
    cluster = Cluster()
    cluster.create("orders")
    command = CreatePartitions((PartitionIncrease("orders", 2), PartitionIncrease("nope", 2)), validate_only=True)
    answers = cluster.submit(command)
    assert answers[0] is None and isinstance(answers[1], Refusal)
    assert len(cluster.image.topics["orders"].partitions) == 1


# Texts that tools print, as Apache Kafka 4.3 words them


def message(cluster: Cluster, command: ControllerCommand) -> str | None:
    (answer,) = cluster.submit(command)
    assert isinstance(answer, Refusal)
    return answer.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "a"}, "Topic 'a' already exists."),
        ({"name": "x_y"}, "Topic 'x_y' collides with existing topic: x.y"),
        (
            {"name": "a b"},
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
            "'-'",
        ),
        ({"name": ".."}, "Topic name is invalid: '..' is not allowed"),
        ({"name": ""}, "Topic name is invalid: the empty string is not allowed"),
        (
            {"name": "x" * 250},
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        ({"partitions": 0}, "Number of partitions was set to an invalid non-positive value."),
        ({"partitions": -2}, "Number of partitions was set to an invalid non-positive value."),
        ({"replication_factor": 0}, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            {"replication_factor": 3},
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered.",
        ),
        ({"configs": {"no.such": "1"}}, "Unknown topic config name: no.such"),
        (
            {"configs": {"retention.ms": "-5"}},
            "Invalid value -5 for configuration retention.ms: Value must be at least -1",
        ),
        ({"name": "__cluster_metadata"}, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
)
def test_a_rejected_creation_has_the_message_of_kafka(change: dict[str, Any], says: str) -> None:
    cluster = Cluster()
    cluster.submit(CreateTopics((cluster.topic("a"),)))
    cluster.submit(CreateTopics((cluster.topic("x.y"),)))
    wanted = cluster.topic("new")._replace(**change)
    assert message(cluster, CreateTopics((wanted,))) == says


@pytest.mark.parametrize(
    ("count", "assignments", "says"),
    [
        (3, None, "Topic already has 3 partition(s)."),
        (1, None, "The topic a currently has 3 partition(s); 1 would not be an increase."),
        (0, None, "The topic a currently has 3 partition(s); 0 would not be an increase."),
        (4, (), "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."),
        (
            4,
            ((BrokerId(9),),),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_a_rejected_increase_has_the_message_of_kafka(count: int, assignments: Any, says: str) -> None:
    cluster = Cluster()
    cluster.submit(CreateTopics((cluster.topic("a", 3),)))
    assert message(cluster, CreatePartitions((PartitionIncrease("a", count, assignments),))) == says
