"""Creating, deleting and growing topics: names, numbers, assignments, and what a request may say twice."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqcore.controller.commands import (
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    TopicGone,
    TopicMade,
)
from mqcore.controller.facts import ConfigChanged, PartitionCreated, TopicCreated
from mqcore.controller.topics import MOST_PARTITIONS, TopicDefaults
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.cast import Cluster


def create(cluster: Cluster, *args: object, **kwargs: object) -> ErrorCode:
    (error,) = cluster.errors(CreateTopics((cluster.topic(*args, **kwargs),)))  # type: ignore[arg-type]
    return error


# Creating


def test_a_new_topic_has_its_partitions_leaders_and_settings() -> None:
    cluster = Cluster()
    wanted = cluster.topic("orders", 3, 1, configs={"retention.ms": "1000"})
    assert cluster.ask(CreateTopics((wanted,))) == (TopicMade("orders", wanted.topic_id, 3, 1),)
    topic = cluster.image.topics["orders"]
    assert cluster.image.topics_by_id[wanted.topic_id] is topic
    assert [(part.index, part.leader, part.isr, part.leader_epoch) for part in topic.partitions] == [
        (0, 1, (1,), 0), (1, 1, (1,), 0), (2, 1, (1,), 0)
    ]  # fmt: skip
    assert topic.configs == {"retention.ms": "1000"}


def test_settings_are_known_before_the_first_partition_is() -> None:
    """Who opens a partition's log when it hears of it must have the settings by then."""
    cluster = Cluster()
    cluster.create("orders", configs={"retention.ms": "1000"})
    kinds = [type(fact) for fact in cluster.facts[-3:]]
    assert kinds == [TopicCreated, ConfigChanged, PartitionCreated]


def test_minus_one_asks_for_the_brokers_defaults() -> None:
    cluster = Cluster(brokers=3, defaults=TopicDefaults(6, 2))
    (made,) = cluster.ask(CreateTopics((cluster.topic("orders"),)))
    assert isinstance(made, TopicMade) and (made.partitions, made.replication_factor) == (6, 2)


def test_leaders_go_round_and_followers_stand_next_to_them() -> None:
    cluster = Cluster(brokers=3)
    cluster.ask(CreateTopics((cluster.topic("orders", 4, 2),)))
    assert [part.replicas for part in cluster.image.topics["orders"].partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "a" * 250, "a\n", "a\0b"])
def test_names_that_could_not_be_folders_or_metrics_are_refused(name: str) -> None:
    assert create(Cluster(), name) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "...", "a" * 249])
def test_other_names_are_taken(name: str) -> None:
    assert create(Cluster(), name) is ErrorCode.NONE


def test_a_name_that_exists_is_refused() -> None:
    cluster = Cluster()
    cluster.create("orders")
    assert create(cluster, "orders") is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_clients_cannot_make_the_topics_of_the_broker(name: str) -> None:
    cluster = Cluster()
    assert create(cluster, name) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_broker_makes_its_own_topics_but_never_the_metadata_log() -> None:
    cluster = Cluster()
    names = ("__consumer_offsets", "__cluster_metadata")
    errors = cluster.errors(CreateTopics(tuple(map(cluster.topic, names)), internal=True))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_dot_and_underscore_collide_also_within_one_request() -> None:
    cluster = Cluster()
    cluster.create("a.b")
    assert create(cluster, "a_b") is ErrorCode.INVALID_TOPIC_EXCEPTION
    errors = cluster.errors(CreateTopics((cluster.topic("c.d.e"), cluster.topic("c_d.e"))))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_deleted_topic_leaves_its_name_and_its_like_free() -> None:
    cluster = Cluster()
    cluster.create("a.b", configs={"retention.ms": "1000"})
    old = cluster.image.topics["a.b"].id
    cluster.ask(DeleteTopics((("a.b", None),)))
    cluster.create("a_b")
    cluster.ask(DeleteTopics((("a_b", None),)))
    cluster.create("a.b")
    again = cluster.image.topics["a.b"]
    assert again.id != old and not again.configs


def test_a_topic_named_twice_in_one_request_is_not_made_at_all() -> None:
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
        (MOST_PARTITIONS + 1, 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_numbers_that_cannot_be_are_refused(partitions: int, replicas: int, error: ErrorCode) -> None:
    assert create(Cluster(), "orders", partitions, replicas) is error


def test_the_partitions_of_a_broker_are_bounded_over_all_topics_of_a_request() -> None:
    cluster = Cluster()
    half = MOST_PARTITIONS // 2 + 1
    errors = cluster.errors(CreateTopics((cluster.topic("a", half), cluster.topic("b", half), cluster.topic("c", 1))))
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]
    assert cluster.errors(CreatePartitions((MorePartitions("c", half),))) == [ErrorCode.INVALID_PARTITIONS]


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
def test_an_assignment_names_existing_brokers_for_every_partition(
    assignment: dict[int, tuple[int, ...]], error: ErrorCode
) -> None:
    cluster = Cluster(brokers=2)
    assert create(cluster, "orders", assignment=assignment) is error
    if error is ErrorCode.NONE:
        placed = {part.index: part.replicas for part in cluster.image.topics["orders"].partitions}
        assert placed == assignment


def test_an_assignment_that_names_a_partition_twice_is_refused() -> None:
    cluster = Cluster()
    here = (BrokerId(1),)
    topic = cluster.topic("orders")
    twice = type(topic)(topic.name, topic.topic_id, assignment=((0, here), (0, here)))
    assert cluster.errors(CreateTopics((twice,))) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1)])
def test_an_assignment_goes_with_no_numbers(partitions: int, replicas: int) -> None:
    assert create(Cluster(), "orders", partitions, replicas, {0: (1,)}) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "configs",
    [{"no.such.setting": "1"}, {"retention.ms": "soon"}, {"retention.ms": None}, {"cleanup.policy": "keep"}],
)
def test_a_topic_with_a_wrong_setting_is_not_made(configs: dict[str, str | None]) -> None:
    cluster = Cluster()
    assert create(cluster, "orders", configs=configs) is ErrorCode.INVALID_CONFIG
    assert not cluster.image.topics


def test_validate_only_answers_alike_and_changes_nothing() -> None:
    cluster = Cluster()
    topics = (cluster.topic("orders", 2), cluster.topic("bad name"))
    before = len(cluster.facts)
    checked = cluster.ask(CreateTopics(topics, validate_only=True))
    assert len(cluster.facts) == before and not cluster.image.topics
    assert cluster.ask(CreateTopics(topics)) == checked


def test_a_request_of_very_many_names_is_answered_in_no_time() -> None:
    """Counting each name in the list of all would take minutes, on the thread that serves everybody."""
    cluster = Cluster()
    name = CreateTopics((cluster.topic("a b"),)).topics[0]
    started = time.perf_counter()
    cluster.errors(CreateTopics((name,) * 50_000))
    cluster.errors(CreatePartitions((MorePartitions("nope", 2),) * 50_000))
    cluster.errors(DeleteTopics((("nope", None),) * 50_000))
    assert time.perf_counter() - started < 5


# Deleting


def test_a_topic_is_deleted_by_name_or_by_id() -> None:
    cluster = Cluster()
    cluster.create("orders", "stock")
    orders, stock = (cluster.image.topics[name].id for name in ("orders", "stock"))
    answers = cluster.ask(DeleteTopics((("orders", None), (None, stock))))
    assert answers == (TopicGone("orders", orders), TopicGone("stock", stock))
    assert not cluster.image.topics and not cluster.image.topics_by_id


def test_a_topic_that_is_not_there_is_unknown_by_name_or_id() -> None:
    errors = Cluster().errors(DeleteTopics((("orders", None), (None, uuid4()))))
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(("name", "topic_id"), [(None, None), ("orders", UUID(int=5))])
def test_a_topic_has_to_be_named_in_exactly_one_way(name: str | None, topic_id: UUID | None) -> None:
    cluster = Cluster()
    cluster.create("orders")
    assert cluster.errors(DeleteTopics(((name, topic_id),))) == [ErrorCode.INVALID_REQUEST]
    assert cluster.image.topics


def test_a_topic_named_twice_also_by_its_id_is_not_deleted() -> None:
    cluster = Cluster()
    cluster.create("orders")
    topic_id = cluster.image.topics["orders"].id
    errors = cluster.errors(DeleteTopics((("orders", None), (None, topic_id))))
    assert errors == [ErrorCode.INVALID_REQUEST] * 2 and cluster.image.topics


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster(defaults=TopicDefaults(1, 1, delete_enabled=False))
    cluster.create("orders")
    assert cluster.errors(DeleteTopics((("orders", None),))) == [ErrorCode.TOPIC_DELETION_DISABLED]


def test_the_topics_of_the_broker_are_neither_deleted_nor_grown() -> None:
    cluster = Cluster()
    cluster.ask(CreateTopics((cluster.topic("__consumer_offsets", 3),), internal=True))
    assert cluster.errors(DeleteTopics((("__consumer_offsets", None),))) == [ErrorCode.INVALID_REQUEST]
    assert cluster.errors(CreatePartitions((MorePartitions("__consumer_offsets", 4),))) == [ErrorCode.INVALID_REQUEST]


# Growing


def test_new_partitions_come_behind_the_old_ones() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=1)
    assert cluster.ask(CreatePartitions((MorePartitions("orders", 3),))) == (None,)
    assert [part.replicas for part in cluster.image.topics["orders"].partitions] == [(1,), (2,), (1,)]


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_a_topic_only_ever_grows(count: int) -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=2)
    assert cluster.errors(CreatePartitions((MorePartitions("orders", count),))) == [ErrorCode.INVALID_PARTITIONS]


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
def test_new_partitions_may_be_placed_by_the_client(
    assignments: tuple[tuple[BrokerId, ...], ...], error: ErrorCode
) -> None:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=1)
    assert cluster.errors(CreatePartitions((MorePartitions("orders", 3, assignments),))) == [error]


def test_growing_is_refused_entry_by_entry() -> None:
    cluster = Cluster()
    cluster.create("orders", "stock")
    wanted = tuple(MorePartitions(name, 2) for name in ("orders", "nope", "stock", "stock"))
    assert cluster.errors(CreatePartitions(wanted)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_growth_can_be_only_checked() -> None:
    cluster = Cluster()
    cluster.create("orders")
    command = CreatePartitions((MorePartitions("orders", 2), MorePartitions("nope", 2)), validate_only=True)
    answers = cluster.ask(command)
    assert answers[0] is None and isinstance(answers[1], Refusal)
    assert len(cluster.image.topics["orders"].partitions) == 1


# Texts that tools print, as Apache Kafka 4.3 words them


def message(cluster: Cluster, command: ControllerCommand) -> str | None:
    (answer,) = cluster.ask(command)
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
def test_a_refused_creation_is_worded_as_by_kafka(change: dict[str, Any], says: str) -> None:
    cluster = Cluster()
    cluster.ask(CreateTopics((cluster.topic("a"),)))
    cluster.ask(CreateTopics((cluster.topic("x.y"),)))
    wanted = replace(cluster.topic("new"), **change)
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
def test_a_refused_growth_is_worded_as_by_kafka(count: int, assignments: Any, says: str) -> None:
    cluster = Cluster()
    cluster.ask(CreateTopics((cluster.topic("a", 3),)))
    assert message(cluster, CreatePartitions((MorePartitions("a", count, assignments),))) == says
