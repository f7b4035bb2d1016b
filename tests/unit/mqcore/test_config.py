"""Settings by Kafka's names. An unknown name or an invalid value is an error that says what to change."""

from __future__ import annotations

import re

import pytest

from mqcore.config import BrokerConfig, as_text, parse_config, settings
from mqcore.config_addresses import Listener
from mqcore.config_values import BadConfig, host_and_port
from mqcore.topic_defaults import check_default


def test_an_empty_configuration_gives_the_defaults() -> None:
    assert parse_config("") == BrokerConfig()


def test_names_may_be_flat_or_nested_tables() -> None:
    flat = parse_config('"log.dirs" = "a"\n"num.partitions" = 3\n"auto.create.topics.enable" = false')
    nested = parse_config('[log]\ndirs = "a"\n[num]\npartitions = 3\n[auto.create.topics]\nenable = false')
    assert flat == nested
    assert (flat.log_dirs, flat.num_partitions, flat.auto_create_topics_enable) == ("a", 3, False)


def test_a_toml_list_is_the_same_as_kafkas_comma_separated_text() -> None:
    config = parse_config('listeners = ["IN://127.0.0.1:1", "OUT://127.0.0.1:2"]')
    assert [listener.name for listener in config.listener_list()] == ["IN", "OUT"]


def test_an_override_replaces_the_file_and_a_later_override_an_earlier_one() -> None:
    config = parse_config('"num.partitions" = 3', ["num.partitions=4", " num.partitions = 5 "])
    assert config.num_partitions == 5


def test_the_value_of_an_override_may_contain_an_equals_sign() -> None:
    assert parse_config("", ["broker.rack=a=b"]).broker_rack == "a=b"


def test_topic_defaults_are_kept_by_name() -> None:
    config = parse_config('[log.retention]\nhours = 2\n[log]\n"segment.bytes" = 1048576', [], check_default)
    assert config.topic_defaults == {"log.retention.hours": "2", "log.segment.bytes": "1048576"}


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("num.partition = 3", [], "num.partition=3: unknown setting"),
        ("", ["no.such.thing=1"], "no.such.thing=1: unknown setting"),
        ("", ["num.partitions"], "--set must be NAME=VALUE, got 'num.partitions'"),
        ("", ["num.partitions=many"], "num.partitions must be a whole number, got 'many'"),
        ("", ["num.partitions=0"], "num.partitions must be at least 1, got 0"),
        ('"num.partitions" = true', [], "num.partitions must be a whole number, got 'True'"),
        ("", ["auto.create.topics.enable=yes"], "auto.create.topics.enable must be true or false, got 'yes'"),
        ("", ["log.retention.hours=soon"], "log.retention.hours=soon: must be a whole number"),
        ("", ["log.segment.bytes=3"], "must be at least 14"),
        ("", ["num.partitions=1_000"], "num.partitions must be a whole number, got '1_000'"),
        ("", ["num.partitions=--5"], "num.partitions must be a whole number, got '--5'"),
        ("", ["num.partitions=٣"], "num.partitions must be a whole number"),
        ("", ["num.partitions=99999999999"], "num.partitions must be at most 2147483647, got 99999999999"),
        ("", ["connections.max.idle.ms=9999999999999999999"], "must be at most 9223372036854775807"),
        ("", ["num.partitions=" + "9" * 5000], "num.partitions must be a whole number, got '999"),
        ('"num.partitions" = ' + "9" * 4000, [], "must be at most 2147483647, got a number of more than 40 digits"),
        ('"num.partitions" = ' + "9" * 5000, [], "the configuration file is not valid TOML"),
        ("a = " + "[" * 100_000, [], "the configuration file is not valid TOML"),
        ("", ["log.retention.hours=--5"], "log.retention.hours=--5: must be a whole number"),
        ("", ["log.retention.hours=1_000"], "log.retention.hours=1_000: must be a whole number"),
        ("", ["log.retention.hours=9999999999999999"], "log.retention.hours=9999999999999999: "),
        ("", ["log.retention.hours=" + "9" * 5000], "must be a whole number"),
        ("", ["log.retention.minutes=-5"], "must be at least -1"),
        ("", ["log.roll.hours=0"], "must be at least 1"),
        ("", ["log.retention.ms=1_000"], "must be a whole number"),
        ("", ["log.retention.ms=" + "9" * 5000], "log.retention.ms="),
        ("", ["log.cleaner.min.cleanable.ratio=0.0_5"], "must be a number"),
        ("", ["log.cleaner.min.cleanable.ratio=inf"], "must be a finite number"),
        ("", ["x" * 5000 + "=1"], "unknown setting"),
        ("", ["broker.rack=" + "x" * 1001], "broker.rack must have at most 1000 characters, got 1001"),
        ("", ["broker.rack=a\nb"], "broker.rack must contain printable characters only"),
        ("", ["broker.rack=\udcff"], "broker.rack must contain printable characters only"),
        ("", ["log.dirs=a\0b"], "log.dirs must not contain a zero byte"),
        ("", ["listeners=A://h:" + "9" * 900], "must be HOST:PORT"),
        ("", ["listeners=A://h:" + "9" * 5000], "at most 1000 characters"),
        ("", ["listeners=A://" + "h" * 64 + ":1"], "is not a valid host name"),
        ("num.partitions = ", [], "the configuration file is not valid TOML"),
        ("", ["listeners="], "listeners must not be empty"),
        ("", ["listeners=127.0.0.1:9092"], "must be NAME://HOST:PORT, got '127.0.0.1:9092'"),
        ("", ["listeners=A://127.0.0.1"], "must be HOST:PORT, got '127.0.0.1'"),
        ("", ["listeners=A://127.0.0.1:99999"], "must be HOST:PORT"),
        ("", ["listeners=A://127.0.0.1:١"], "must be HOST:PORT"),
        ("", ["listeners=A://h:1,a://h:2"], "listeners contains a twice"),
        ("", ["advertised.listeners=B://h:1"], "advertised.listeners contains B, which is not one of listeners"),
        ("", ["listener.security.protocol.map=PLAINTEXT:SSL"], "only PLAINTEXT is supported"),
        ("", ["metrics.listener=9100"], "metrics.listener must be HOST:PORT, got '9100'"),
    ],
)
def test_an_invalid_setting_is_rejected_in_one_line_that_names_it(
    text: str, overrides: list[str], message: str
) -> None:
    with pytest.raises(BadConfig) as stopped:
        parse_config(text, overrides, check_default)
    assert (
        message in str(stopped.value)
        and len(str(stopped.value)) < 400
        and "\n" not in str(stopped.value).split("TOML")[0]
    )


def test_listeners_have_their_own_advertised_addresses() -> None:
    config = parse_config(
        "",
        [
            "listeners=INSIDE://0.0.0.0:9092,OUTSIDE://[::]:9094",
            "advertised.listeners=OUTSIDE://localhost:19094,INSIDE://broker:9092",
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        ],
    )
    assert config.listener_list() == (
        Listener("INSIDE", "0.0.0.0", 9092, "broker", 9092),
        Listener("OUTSIDE", "::", 9094, "localhost", 19094),
    )


def test_a_listener_without_an_advertised_address_advertises_its_own() -> None:
    config = parse_config("", ["listeners=A://h:1,B://h:2", "advertised.listeners=A://x:9"])
    assert config.listener_list()[1] == Listener("B", "h", 2, "h", 2)


def test_host_and_port_are_split() -> None:
    assert host_and_port("[::1]:80", "x") == ("::1", 80)
    assert host_and_port(":80", "x") == ("", 80)


def test_every_setting_is_documented_and_its_default_is_valid() -> None:
    for name, spec in settings().items():
        assert spec.metadata["doc"], name
        assert parse_config("", [f"{name}={as_text(spec.default)}"]) == BrokerConfig(), name


CLUSTER = ["node.id=2", "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"]
VOTERS = "controller.quorum.voters=1@127.0.0.1:11,2@127.0.0.1:2,3@[::1]:33"
CONTROLLER = "controller.listener.names=CONTROLLER"


def test_the_voters_are_node_ids_with_addresses() -> None:
    config = parse_config("", [*CLUSTER, VOTERS, CONTROLLER])
    assert config.voters() == {1: ("127.0.0.1", 11), 2: ("127.0.0.1", 2), 3: ("::1", 33)}
    assert (config.controller_listener, config.inter_broker_listener) == ("CONTROLLER", "PLAINTEXT")


def test_a_broker_without_voters_is_the_only_one() -> None:
    config = parse_config("")
    assert (config.voters(), config.controller_listener, config.inter_broker_listener) == ({}, "", "PLAINTEXT")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([*CLUSTER, VOTERS], "controller.listener.names must name the listener"),
        ([*CLUSTER, VOTERS, "controller.listener.names=OTHER"], "controller.listener.names=OTHER is not one of"),
        ([*CLUSTER, CONTROLLER, "controller.quorum.voters=1@a:1,2@b:2"], "must name 1 or 3 nodes, got 2"),
        ([*CLUSTER, CONTROLLER, "controller.quorum.voters=1@a:1"], "node.id=2 is not in controller.quorum.voters"),
        ([*CLUSTER, CONTROLLER, "controller.quorum.voters=2"], "must be ID@HOST:PORT, got '2'"),
        ([*CLUSTER, CONTROLLER, "controller.quorum.voters=2@a:1,2@b:1,3@c:1"], "contains node 2 twice"),
        (["listeners=C://127.0.0.1:1", "controller.listener.names=C"], "must contain one for clients"),
        ([*CLUSTER, CONTROLLER, "inter.broker.listener.name=CONTROLLER"], "is the listener of the controller"),
        (["replica.selector.class=Nearest"], "replica.selector.class must be one of RackAwareReplicaSelector, org"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused_at_the_start(overrides: list[str], message: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(message)):
        parse_config("", overrides)
