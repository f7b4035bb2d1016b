"""Settings by Kafka's names: what is unknown or makes no sense stops the start and says what to do."""

from __future__ import annotations

import pytest

from mqcore.config import BadConfig, BrokerConfig, Listener, as_text, host_and_port, read, settings
from mqcore.settings import check_default


def test_nothing_said_means_kafkas_defaults() -> None:
    assert read("") == BrokerConfig()


def test_names_may_be_written_flat_or_nested() -> None:
    flat = read('"log.dirs" = "a"\n"num.partitions" = 3\n"auto.create.topics.enable" = false')
    nested = read('[log]\ndirs = "a"\n[num]\npartitions = 3\n[auto.create.topics]\nenable = false')
    assert flat == nested
    assert (flat.log_dirs, flat.num_partitions, flat.auto_create_topics_enable) == ("a", 3, False)


def test_a_list_is_what_kafka_writes_with_commas() -> None:
    config = read('listeners = ["IN://127.0.0.1:1", "OUT://127.0.0.1:2"]')
    assert [listener.name for listener in config.listener_list()] == ["IN", "OUT"]


def test_overrides_win_over_the_file_and_later_ones_over_earlier() -> None:
    config = read('"num.partitions" = 3', ["num.partitions=4", " num.partitions = 5 "])
    assert config.num_partitions == 5


def test_an_override_may_hold_an_equals_sign() -> None:
    assert read("", ["broker.rack=a=b"]).broker_rack == "a=b"


def test_topic_defaults_are_kept_by_name_for_those_who_know_them() -> None:
    config = read('[log.retention]\nhours = 2\n[log]\n"segment.bytes" = 1048576', [], check_default)
    assert config.topic_defaults == {"log.retention.hours": "2", "log.segment.bytes": "1048576"}


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        ("num.partition = 3", [], "num.partition=3: unknown setting"),
        ("", ["no.such.thing=1"], "no.such.thing=1: unknown setting"),
        ("", ["num.partitions"], "--set wants name=value, got 'num.partitions'"),
        ("", ["num.partitions=many"], "num.partitions must be a whole number, got 'many'"),
        ("", ["num.partitions=0"], "num.partitions=0 is below 1"),
        ('"num.partitions" = true', [], "num.partitions must be a whole number, got 'True'"),
        ("", ["auto.create.topics.enable=yes"], "auto.create.topics.enable must be true or false, got 'yes'"),
        ("", ["log.retention.hours=soon"], "log.retention.hours=soon: must be a whole number"),
        ("", ["log.segment.bytes=3"], "must be at least 14"),
        ("", ["num.partitions=1_000"], "num.partitions must be a whole number, got '1_000'"),
        ("", ["num.partitions=--5"], "num.partitions must be a whole number, got '--5'"),
        ("", ["num.partitions=٣"], "num.partitions must be a whole number"),
        ("", ["num.partitions=99999999999"], "num.partitions=99999999999 is above 2147483647"),
        ("", ["connections.max.idle.ms=9999999999999999999"], "is above 9223372036854775807"),
        ("", ["num.partitions=" + "9" * 5000], "num.partitions must be a whole number, got '999"),
        ('"num.partitions" = ' + "9" * 4000, [], "a number of more than 40 digits is above"),
        ('"num.partitions" = ' + "9" * 5000, [], "the configuration file is no TOML"),
        ("a = " + "[" * 100_000, [], "the configuration file is no TOML"),
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
        ("", ["broker.rack=" + "x" * 1001], "broker.rack has 1001 characters, at most 1000 are allowed"),
        ("", ["broker.rack=a\nb"], "broker.rack contains a character that cannot be printed"),
        ("", ["broker.rack=\udcff"], "broker.rack contains a character that cannot be printed"),
        ("", ["log.dirs=a\0b"], "log.dirs contains a zero byte"),
        ("", ["listeners=A://h:" + "9" * 900], "is not HOST:PORT"),
        ("", ["listeners=A://h:" + "9" * 5000], "at most 1000 are allowed"),
        ("", ["listeners=A://" + "h" * 64 + ":1"], "is not the name of a host"),
        ("num.partitions = ", [], "the configuration file is no TOML"),
        ("", ["listeners="], "listeners is empty"),
        ("", ["listeners=127.0.0.1:9092"], "'127.0.0.1:9092' is not NAME://HOST:PORT"),
        ("", ["listeners=A://127.0.0.1"], "'127.0.0.1' is not HOST:PORT"),
        ("", ["listeners=A://127.0.0.1:99999"], "is not HOST:PORT"),
        ("", ["listeners=A://127.0.0.1:١"], "is not HOST:PORT"),
        ("", ["listeners=A://h:1,a://h:2"], "a is there twice"),
        ("", ["advertised.listeners=B://h:1"], "advertised.listeners names B, which is not among listeners"),
        ("", ["listener.security.protocol.map=PLAINTEXT:SSL"], "only PLAINTEXT is served yet"),
        ("", ["metrics.listener=9100"], "metrics.listener: '9100' is not HOST:PORT"),
    ],
)
def test_what_is_wrong_stops_the_start_and_says_so(text: str, overrides: list[str], says: str) -> None:
    with pytest.raises(BadConfig) as stopped:
        read(text, overrides, check_default)
    assert (
        says in str(stopped.value) and len(str(stopped.value)) < 400 and "\n" not in str(stopped.value).split("TOML")[0]
    )


def test_listeners_have_their_own_advertised_addresses() -> None:
    config = read(
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


def test_a_listener_that_is_not_advertised_tells_its_own_address() -> None:
    config = read("", ["listeners=A://h:1,B://h:2", "advertised.listeners=A://x:9"])
    assert config.listener_list()[1] == Listener("B", "h", 2, "h", 2)


def test_addresses_are_taken_apart() -> None:
    assert host_and_port("[::1]:80", "x") == ("::1", 80)
    assert host_and_port(":80", "x") == ("", 80)


def test_every_setting_has_a_documentation_and_its_default_passes_its_own_check() -> None:
    for name, spec in settings().items():
        assert spec.metadata["doc"], name
        assert read("", [f"{name}={as_text(spec.default)}"]) == BrokerConfig(), name
