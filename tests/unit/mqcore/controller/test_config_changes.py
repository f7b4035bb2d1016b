"""Changing settings of topics and brokers, one by one and all together."""

from __future__ import annotations

import pytest

from mqcore.controller.commands import Alteration
from mqcore.controller.config_changes import VALUE_BYTES_MAX
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.cluster_driver import Cluster, alter, edits, set_to

APPEND, SUBTRACT, DELETE = Alteration.APPEND, Alteration.SUBTRACT, Alteration.DELETE


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("orders")
    return cluster


def configs_of(cluster: Cluster, topic: str = "orders") -> dict[str, str]:
    return dict(cluster.image.topics[topic].configs)


def test_a_setting_of_a_topic_is_changed_and_reset(cluster: Cluster) -> None:
    assert cluster.submit(alter(edits("orders", set_to("retention.ms", "1000")))) == (None,)
    assert configs_of(cluster) == {"retention.ms": "1000"}
    assert cluster.submit(alter(edits("orders", ("retention.ms", DELETE, None)))) == (None,)
    assert configs_of(cluster) == {}


def test_incremental_edits_leave_other_settings_unchanged(cluster: Cluster) -> None:
    cluster.submit(alter(edits("orders", set_to("retention.ms", "1000"), set_to("flush.ms", "5"))))
    cluster.submit(alter(edits("orders", set_to("retention.ms", "2000"))))
    assert configs_of(cluster) == {"retention.ms": "2000", "flush.ms": "5"}


def test_replacing_all_settings_resets_the_unnamed_ones(cluster: Cluster) -> None:
    cluster.submit(alter(edits("orders", set_to("retention.ms", "1000"), set_to("flush.ms", "5"))))
    cluster.submit(alter(edits("orders", set_to("segment.ms", "7"), set_to("flush.ms", "5"), replace_all=True)))
    assert configs_of(cluster) == {"segment.ms": "7", "flush.ms": "5"}


def test_unchanged_settings_make_no_facts(cluster: Cluster) -> None:
    cluster.submit(alter(edits("orders", set_to("flush.ms", "5"))))
    before = len(cluster.facts)
    cluster.submit(alter(edits("orders", set_to("flush.ms", "5"), ("retention.ms", DELETE, None))))
    assert len(cluster.facts) == before


@pytest.mark.parametrize(
    ("present", "operation", "value", "result"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        ("compact", APPEND, "delete, compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact , delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", "compact"),
    ],
)
def test_list_settings_can_be_extended_and_reduced(
    cluster: Cluster, present: str | None, operation: int, value: str, result: str
) -> None:
    if present is not None:
        cluster.submit(alter(edits("orders", set_to("cleanup.policy", present))))
    assert cluster.submit(alter(edits("orders", ("cleanup.policy", operation, value)))) == (None,)
    assert configs_of(cluster)["cleanup.policy"] == result


def test_the_resulting_list_must_be_valid(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("orders", ("cleanup.policy", SUBTRACT, "delete")))) == [ErrorCode.INVALID_CONFIG]
    assert cluster.errors(alter(edits("orders", ("cleanup.policy", APPEND, "keep")))) == [ErrorCode.INVALID_CONFIG]


def test_only_list_settings_can_be_extended(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("orders", ("retention.ms", APPEND, "1")))) == [ErrorCode.INVALID_CONFIG]
    assert cluster.errors(alter(edits("orders", ("nope", SUBTRACT, "1")))) == [ErrorCode.INVALID_CONFIG]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (set_to("nope", "1"), ErrorCode.INVALID_CONFIG),
        (set_to("retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
        (set_to("retention.ms", None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", -1, "1"), ErrorCode.INVALID_REQUEST),
        (set_to("leader.replication.throttled.replicas", "x" * (VALUE_BYTES_MAX + 1)), ErrorCode.INVALID_CONFIG),
        (
            set_to("leader.replication.throttled.replicas", "ß" * (VALUE_BYTES_MAX // 2 + 1)),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
def test_one_invalid_edit_rejects_all_edits_of_its_resource(
    cluster: Cluster, change: tuple[str, int, str | None], error: ErrorCode
) -> None:
    cluster.create("stock")
    good = set_to("flush.ms", "5")
    assert cluster.errors(alter(edits("orders", good, change), edits("stock", good))) == [error, ErrorCode.NONE]
    assert configs_of(cluster) == {} and configs_of(cluster, "stock") == {"flush.ms": "5"}


def test_a_value_of_the_maximum_length_is_accepted(cluster: Cluster) -> None:
    longest = set_to("leader.replication.throttled.replicas", "x" * VALUE_BYTES_MAX)
    assert cluster.submit(alter(edits("orders", longest))) == (None,)


def test_a_setting_named_twice_is_rejected(cluster: Cluster) -> None:
    twice = edits("orders", set_to("flush.ms", "5"), set_to("flush.ms", "6"))
    assert cluster.errors(alter(twice)) == [ErrorCode.INVALID_REQUEST]


def test_a_resource_named_twice_is_rejected(cluster: Cluster) -> None:
    one, other = edits("orders", set_to("flush.ms", "5")), edits("orders", set_to("segment.ms", "5"))
    assert cluster.errors(alter(one, other)) == [ErrorCode.INVALID_REQUEST] * 2
    assert configs_of(cluster) == {}


def test_the_settings_of_a_missing_topic_cannot_be_changed() -> None:
    change = set_to("flush.ms", "5")
    assert Cluster().errors(alter(edits("orders", change))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_change_of_settings_can_be_validated_without_being_made(cluster: Cluster) -> None:
    good, bad = set_to("flush.ms", "5"), set_to("flush.ms", "-5")
    assert cluster.errors(alter(edits("orders", good), validate_only=True)) == [ErrorCode.NONE]
    assert cluster.errors(alter(edits("orders", bad), validate_only=True)) == [ErrorCode.INVALID_CONFIG]
    assert configs_of(cluster) == {}


# Brokers


@pytest.mark.parametrize("broker", ["1", ""])
def test_a_broker_accepts_the_defaults_of_topics(cluster: Cluster, broker: str) -> None:
    change = edits(broker, set_to("log.retention.ms", "1000"), kind=ResourceType.BROKER)
    assert cluster.submit(alter(change)) == (None,)
    assert cluster.image.configs(ResourceType.BROKER, broker) == {"log.retention.ms": "1000"}
    assert cluster.facts[-1] == ConfigChanged(ResourceType.BROKER, broker, "log.retention.ms", "1000")


def test_settings_that_a_broker_reads_at_its_start_cannot_be_changed(cluster: Cluster) -> None:
    (answer,) = cluster.submit(alter(edits("1", set_to("num.partitions", "3"), kind=ResourceType.BROKER)))
    assert isinstance(answer, Refusal) and answer.error is ErrorCode.INVALID_REQUEST
    assert "reads them only at its start" in str(answer.message)


@pytest.mark.parametrize(
    ("broker", "change", "error"),
    [
        ("2", set_to("log.retention.ms", "1"), ErrorCode.INVALID_REQUEST),
        ("one", set_to("log.retention.ms", "1"), ErrorCode.INVALID_REQUEST),
        ("1", set_to("log.retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
        ("1", set_to("retention.ms", "1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_other_changes_of_a_broker_are_rejected(
    cluster: Cluster, broker: str, change: tuple[str, int, str], error: ErrorCode
) -> None:
    assert cluster.errors(alter(edits(broker, change, kind=ResourceType.BROKER))) == [error]


def test_list_settings_of_a_broker_can_be_extended(cluster: Cluster) -> None:
    change = edits("", ("log.cleanup.policy", APPEND, "compact"), kind=ResourceType.BROKER)
    assert cluster.submit(alter(change)) == (None,)
    assert cluster.image.configs(ResourceType.BROKER, "") == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize("kind", [ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP, 3, -1])
def test_resources_of_other_types_have_no_settings(cluster: Cluster, kind: int) -> None:
    assert cluster.errors(alter(edits("1", set_to("a", "b"), kind=kind))) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("kind", "name", "edit", "says"),
    [
        (ResourceType.TOPIC, "nope", ("retention.ms", 0, "1"), "The topic 'nope' does not exist."),
        (ResourceType.TOPIC, "orders", ("no.such", 0, "1"), "Unknown topic config name: no.such"),
        (
            ResourceType.TOPIC,
            "orders",
            ("retention.ms", APPEND, "1"),
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (ResourceType.TOPIC, "orders", ("retention.ms", 0, None), "Null value not supported for : retention.ms"),
        (ResourceType.BROKER, "9", ("log.retention.ms", 0, "1"), "Unexpected broker id, expected 1, but received 9"),
        (ResourceType.BROKER, "x", ("log.retention.ms", 0, "1"), "Node id must be an integer, but it is: x"),
        (9, "a", ("x", 0, "1"), "Unknown resource type 9"),
    ],
)
def test_a_rejected_change_has_the_message_of_kafka(
    cluster: Cluster, kind: int, name: str, edit: tuple[str, int, str | None], says: str
) -> None:
    (answer,) = cluster.submit(alter(edits(name, edit, kind=kind)))
    assert isinstance(answer, Refusal) and answer.message == says


def test_spaces_count_towards_the_length_of_a_number(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("orders", set_to("retention.ms", " " * 60 + "5")))) == [ErrorCode.NONE]
    assert cluster.errors(alter(edits("orders", set_to("retention.ms", " " * 64 + "5")))) == [ErrorCode.INVALID_CONFIG]
    text = "0:1," * 8_000
    throttled = "leader.replication.throttled.replicas"
    assert cluster.errors(alter(edits("orders", set_to(throttled, text)))) == [ErrorCode.NONE]


@pytest.mark.parametrize("name", ["broker.id", "num.partitions", "process.roles", "log.dirs"])
def test_settings_that_kafka_reads_at_its_start_are_rejected_with_its_message(cluster: Cluster, name: str) -> None:
    (answer,) = cluster.submit(alter(edits("1", set_to(name, "1"), kind=ResourceType.BROKER)))
    assert isinstance(answer, Refusal) and answer.error is ErrorCode.INVALID_REQUEST
    assert f"Cannot update these configs dynamically: [{name}]" in str(answer.message)
