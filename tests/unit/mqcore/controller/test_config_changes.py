"""Changing settings: of topics, of brokers, one by one and all at once."""

from __future__ import annotations

import pytest

from mqcore.controller.commands import Alteration
from mqcore.controller.configs import LONGEST_VALUE
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.cast import Cluster, alter, edits, set_to

APPEND, SUBTRACT, DELETE = Alteration.APPEND, Alteration.SUBTRACT, Alteration.DELETE


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("orders")
    return cluster


def configs_of(cluster: Cluster, topic: str = "orders") -> dict[str, str]:
    return dict(cluster.image.topics[topic].configs)


def test_a_setting_of_a_topic_is_set_and_taken_back(cluster: Cluster) -> None:
    assert cluster.ask(alter(edits("orders", set_to("retention.ms", "1000")))) == (None,)
    assert configs_of(cluster) == {"retention.ms": "1000"}
    assert cluster.ask(alter(edits("orders", ("retention.ms", DELETE, None)))) == (None,)
    assert configs_of(cluster) == {}


def test_single_edits_leave_the_other_settings_alone(cluster: Cluster) -> None:
    cluster.ask(alter(edits("orders", set_to("retention.ms", "1000"), set_to("flush.ms", "5"))))
    cluster.ask(alter(edits("orders", set_to("retention.ms", "2000"))))
    assert configs_of(cluster) == {"retention.ms": "2000", "flush.ms": "5"}


def test_replacing_all_puts_the_unnamed_ones_back_to_their_defaults(cluster: Cluster) -> None:
    cluster.ask(alter(edits("orders", set_to("retention.ms", "1000"), set_to("flush.ms", "5"))))
    cluster.ask(alter(edits("orders", set_to("segment.ms", "7"), set_to("flush.ms", "5"), replace_all=True)))
    assert configs_of(cluster) == {"segment.ms": "7", "flush.ms": "5"}


def test_what_does_not_change_is_not_written_down(cluster: Cluster) -> None:
    cluster.ask(alter(edits("orders", set_to("flush.ms", "5"))))
    before = len(cluster.facts)
    cluster.ask(alter(edits("orders", set_to("flush.ms", "5"), ("retention.ms", DELETE, None))))
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
def test_lists_are_lengthened_and_shortened(
    cluster: Cluster, present: str | None, operation: int, value: str, result: str
) -> None:
    if present is not None:
        cluster.ask(alter(edits("orders", set_to("cleanup.policy", present))))
    assert cluster.ask(alter(edits("orders", ("cleanup.policy", operation, value)))) == (None,)
    assert configs_of(cluster)["cleanup.policy"] == result


def test_what_is_left_of_a_list_has_to_make_sense(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("orders", ("cleanup.policy", SUBTRACT, "delete")))) == [ErrorCode.INVALID_CONFIG]
    assert cluster.errors(alter(edits("orders", ("cleanup.policy", APPEND, "keep")))) == [ErrorCode.INVALID_CONFIG]


def test_only_lists_are_lengthened(cluster: Cluster) -> None:
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
        (set_to("leader.replication.throttled.replicas", "x" * (LONGEST_VALUE + 1)), ErrorCode.INVALID_CONFIG),
        (set_to("leader.replication.throttled.replicas", "ß" * (LONGEST_VALUE // 2 + 1)), ErrorCode.INVALID_CONFIG),
    ],
)
def test_one_wrong_edit_refuses_its_resource_whole(
    cluster: Cluster, change: tuple[str, int, str | None], error: ErrorCode
) -> None:
    cluster.create("stock")
    good = set_to("flush.ms", "5")
    assert cluster.errors(alter(edits("orders", good, change), edits("stock", good))) == [error, ErrorCode.NONE]
    assert configs_of(cluster) == {} and configs_of(cluster, "stock") == {"flush.ms": "5"}


def test_the_longest_value_is_taken(cluster: Cluster) -> None:
    longest = set_to("leader.replication.throttled.replicas", "x" * LONGEST_VALUE)
    assert cluster.ask(alter(edits("orders", longest))) == (None,)


def test_a_setting_named_twice_is_refused(cluster: Cluster) -> None:
    twice = edits("orders", set_to("flush.ms", "5"), set_to("flush.ms", "6"))
    assert cluster.errors(alter(twice)) == [ErrorCode.INVALID_REQUEST]


def test_a_resource_named_twice_is_refused(cluster: Cluster) -> None:
    one, other = edits("orders", set_to("flush.ms", "5")), edits("orders", set_to("segment.ms", "5"))
    assert cluster.errors(alter(one, other)) == [ErrorCode.INVALID_REQUEST] * 2
    assert configs_of(cluster) == {}


def test_a_topic_that_is_not_there_has_no_settings() -> None:
    change = set_to("flush.ms", "5")
    assert Cluster().errors(alter(edits("orders", change))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_change_can_be_only_checked(cluster: Cluster) -> None:
    good, bad = set_to("flush.ms", "5"), set_to("flush.ms", "-5")
    assert cluster.errors(alter(edits("orders", good), validate_only=True)) == [ErrorCode.NONE]
    assert cluster.errors(alter(edits("orders", bad), validate_only=True)) == [ErrorCode.INVALID_CONFIG]
    assert configs_of(cluster) == {}


# Brokers


@pytest.mark.parametrize("broker", ["1", ""])
def test_a_broker_takes_the_defaults_of_topics(cluster: Cluster, broker: str) -> None:
    change = edits(broker, set_to("log.retention.ms", "1000"), kind=ResourceType.BROKER)
    assert cluster.ask(alter(change)) == (None,)
    assert cluster.image.configs(ResourceType.BROKER, broker) == {"log.retention.ms": "1000"}
    assert cluster.facts[-1] == ConfigChanged(ResourceType.BROKER, broker, "log.retention.ms", "1000")


def test_what_a_broker_reads_at_its_start_cannot_be_changed_and_says_so(cluster: Cluster) -> None:
    (answer,) = cluster.ask(alter(edits("1", set_to("num.partitions", "3"), kind=ResourceType.BROKER)))
    assert isinstance(answer, Refusal) and answer.error is ErrorCode.INVALID_REQUEST
    assert "cannot be changed while the broker runs" in str(answer.message)


@pytest.mark.parametrize(
    ("broker", "change", "error"),
    [
        ("2", set_to("log.retention.ms", "1"), ErrorCode.INVALID_REQUEST),
        ("one", set_to("log.retention.ms", "1"), ErrorCode.INVALID_REQUEST),
        ("1", set_to("log.retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
        ("1", set_to("retention.ms", "1"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_other_changes_of_a_broker_are_refused(
    cluster: Cluster, broker: str, change: tuple[str, int, str], error: ErrorCode
) -> None:
    assert cluster.errors(alter(edits(broker, change, kind=ResourceType.BROKER))) == [error]


def test_lists_of_a_broker_are_lengthened_too(cluster: Cluster) -> None:
    change = edits("", ("log.cleanup.policy", APPEND, "compact"), kind=ResourceType.BROKER)
    assert cluster.ask(alter(change)) == (None,)
    assert cluster.image.configs(ResourceType.BROKER, "") == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize("kind", [ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP, 3, -1])
def test_nothing_else_has_settings(cluster: Cluster, kind: int) -> None:
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
def test_a_refused_change_is_worded_as_by_kafka(
    cluster: Cluster, kind: int, name: str, edit: tuple[str, int, str | None], says: str
) -> None:
    (answer,) = cluster.ask(alter(edits(name, edit, kind=kind)))
    assert isinstance(answer, Refusal) and answer.message == says


def test_blanks_do_not_make_a_number_as_long_as_a_text(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("orders", set_to("retention.ms", " " * 60 + "5")))) == [ErrorCode.NONE]
    assert cluster.errors(alter(edits("orders", set_to("retention.ms", " " * 64 + "5")))) == [ErrorCode.INVALID_CONFIG]
    text = "0:1," * 8_000
    throttled = "leader.replication.throttled.replicas"
    assert cluster.errors(alter(edits("orders", set_to(throttled, text)))) == [ErrorCode.NONE]


@pytest.mark.parametrize("name", ["broker.id", "num.partitions", "process.roles", "log.dirs"])
def test_what_kafka_reads_at_its_start_is_refused_as_by_kafka(cluster: Cluster, name: str) -> None:
    (answer,) = cluster.ask(alter(edits("1", set_to(name, "1"), kind=ResourceType.BROKER)))
    assert isinstance(answer, Refusal) and answer.error is ErrorCode.INVALID_REQUEST
    assert f"Cannot update these configs dynamically: [{name}]" in str(answer.message)
