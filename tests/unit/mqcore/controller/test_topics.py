"""Creating topics: names, numbers of partitions, and assignments."""

from __future__ import annotations

import time

import pytest

from mqcore.controller.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    PartitionIncrease,
)
from mqcore.controller.facts import ConfigChanged, PartitionCreated, TopicCreated
from mqcore.controller.topics import PARTITIONS_MAX, TopicDefaults
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.cluster_driver import Cluster


def create(cluster: Cluster, *args: object, **kwargs: object) -> ErrorCode:
    (error,) = cluster.errors(CreateTopics((cluster.topic(*args, **kwargs),)))  # type: ignore[arg-type]
    return error


# Creating


def test_a_new_topic_has_partitions_leaders_and_settings() -> None:
    cluster = Cluster()
    wanted = cluster.topic("orders", 3, 1, configs={"retention.ms": "1000"})
    assert cluster.submit(CreateTopics((wanted,))) == (CreatedTopic("orders", wanted.topic_id, 3, 1),)
    topic = cluster.image.topics["orders"]
    assert cluster.image.topics_by_id[wanted.topic_id] is topic
    assert [(part.index, part.leader, part.isr, part.leader_epoch) for part in topic.partitions] == [
        (0, 1, (1,), 0), (1, 1, (1,), 0), (2, 1, (1,), 0)
    ]  # fmt: skip
    assert topic.configs == {"retention.ms": "1000"}


def test_the_settings_of_a_topic_precede_its_partitions() -> None:
    """A broker opens the log of a partition when it learns of it, and needs the settings then."""
    cluster = Cluster()
    cluster.create("orders", configs={"retention.ms": "1000"})
    kinds = [type(fact) for fact in cluster.facts[-3:]]
    assert kinds == [TopicCreated, ConfigChanged, PartitionCreated]


def test_minus_one_stands_for_the_default_of_the_broker() -> None:
    cluster = Cluster(brokers=3, defaults=TopicDefaults(6, 2))
    (made,) = cluster.submit(CreateTopics((cluster.topic("orders"),)))
    assert isinstance(made, CreatedTopic) and (made.partitions, made.replication_factor) == (6, 2)


def test_leaders_are_assigned_round_robin_and_the_followers_of_one_leader_differ() -> None:
    cluster = Cluster(brokers=3)
    cluster.submit(CreateTopics((cluster.topic("orders", 4, 2),)))
    assert [part.replicas for part in cluster.image.topics["orders"].partitions] == [(1, 2), (2, 3), (3, 1), (1, 3)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a" * 250, "a\n", "a\0b"])
def test_names_that_cannot_be_folders_or_metrics_are_rejected(name: str) -> None:
    assert create(Cluster(), name) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "...", "a" * 249])
def test_other_names_are_accepted(name: str) -> None:
    assert create(Cluster(), name) is ErrorCode.NONE


def test_an_existing_name_is_rejected() -> None:
    cluster = Cluster()
    cluster.create("orders")
    assert create(cluster, "orders") is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_clients_cannot_create_internal_topics(name: str) -> None:
    cluster = Cluster()
    assert create(cluster, name) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_broker_can_create_internal_topics_but_not_the_metadata_log() -> None:
    cluster = Cluster()
    names = ("__consumer_offsets", "__cluster_metadata")
    errors = cluster.errors(CreateTopics(tuple(map(cluster.topic, names)), internal=True))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_names_that_differ_only_in_dot_and_underscore_collide_even_in_one_request() -> None:
    cluster = Cluster()
    cluster.create("a.b")
    assert create(cluster, "a_b") is ErrorCode.INVALID_TOPIC_EXCEPTION
    errors = cluster.errors(CreateTopics((cluster.topic("c.d.e"), cluster.topic("c_d.e"))))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_the_name_of_a_deleted_topic_can_be_used_again() -> None:
    cluster = Cluster()
    cluster.create("a.b", configs={"retention.ms": "1000"})
    old = cluster.image.topics["a.b"].id
    cluster.submit(DeleteTopics((("a.b", None),)))
    cluster.create("a_b")
    cluster.submit(DeleteTopics((("a_b", None),)))
    cluster.create("a.b")
    again = cluster.image.topics["a.b"]
    assert again.id != old and not again.configs


def test_a_topic_named_twice_in_one_request_is_not_created() -> None:
    cluster = Cluster()
    names = ("orders", "stock", "orders")
    errors = cluster.errors(CreateTopics(tuple(map(cluster.topic, names))))
    assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert set(cluster.image.topics) == {"stock"}


@pytest.mark.parametrize(
    ("partitions", "replicas", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (PARTITIONS_MAX + 1, 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_numbers_of_partitions_or_replicas_are_rejected(
    partitions: int, replicas: int, error: ErrorCode
) -> None:
    assert create(Cluster(), "orders", partitions, replicas) is error


def test_the_partitions_of_a_broker_are_limited_over_all_topics_of_a_request() -> None:
    cluster = Cluster()
    half = PARTITIONS_MAX // 2 + 1
    errors = cluster.errors(CreateTopics((cluster.topic("a", half), cluster.topic("b", half), cluster.topic("c", 1))))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]
    assert cluster.errors(CreatePartitions((PartitionIncrease("c", half),))) == [ErrorCode.INVALID_PARTITIONS]


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ({0: (2, 1), 1: (1, 2)}, ErrorCode.NONE),
        ({1: (1,), 0: (2,)}, ErrorCode.NONE),
        ({0: (1,), 2: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({1: (1,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: ()}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, 1)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (3,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1,), 1: (1, 2)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_invalid_assignment_is_rejected(assignment: dict[int, tuple[int, ...]], error: ErrorCode) -> None:
    cluster = Cluster(brokers=2)
    assert create(cluster, "orders", assignment=assignment) is error
    if error is ErrorCode.NONE:
        placed = {part.index: part.replicas for part in cluster.image.topics["orders"].partitions}
        assert placed == assignment


def test_an_assignment_that_names_a_partition_twice_is_rejected() -> None:
    cluster = Cluster()
    here = (BrokerId(1),)
    topic = cluster.topic("orders")
    twice = type(topic)(topic.name, topic.topic_id, assignment=((0, here), (0, here)))
    assert cluster.errors(CreateTopics((twice,))) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1)])
def test_an_assignment_and_numbers_together_are_rejected(partitions: int, replicas: int) -> None:
    assert create(Cluster(), "orders", partitions, replicas, {0: (1,)}) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs",
    [{"no.such.setting": "1"}, {"retention.ms": "soon"}, {"retention.ms": None}, {"cleanup.policy": "keep"}],
)
def test_a_topic_with_an_invalid_setting_is_not_created(configs: dict[str, str | None]) -> None:
    cluster = Cluster()
    assert create(cluster, "orders", configs=configs) is ErrorCode.INVALID_CONFIG
    assert not cluster.image.topics


def test_validate_only_gives_the_same_answer_and_changes_nothing() -> None:
    cluster = Cluster()
    topics = (cluster.topic("orders", 2), cluster.topic("bad name"))
    before = len(cluster.facts)
    checked = cluster.submit(CreateTopics(topics, validate_only=True))
    assert len(cluster.facts) == before and not cluster.image.topics
    assert cluster.submit(CreateTopics(topics)) == checked


def test_the_work_for_a_request_grows_linearly_with_its_names() -> None:
    """Counting each name in the list of all names would block the event loop for minutes."""
    cluster = Cluster()
    name = CreateTopics((cluster.topic("a b"),)).topics[0]
    started = time.perf_counter()
    cluster.errors(CreateTopics((name,) * 50_000))
    cluster.errors(CreatePartitions((PartitionIncrease("nope", 2),) * 50_000))
    cluster.errors(DeleteTopics((("nope", None),) * 50_000))
    assert time.perf_counter() - started < 5
