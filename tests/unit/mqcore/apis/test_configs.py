"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources; changes take effect at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqcore.config import parse_config, settings
from mqcore.config_values import BadConfig
from mqcore.controller.facts import ResourceType
from mqcore.controller.setting_layers import BROKER_SYNONYMS, ConfigSource
from mqcore.controller.settings_without_effect import SECRETS, SETTINGS_WITHOUT_EFFECT
from mqcore.log.setting_types import SettingType
from mqcore.log.topic_config import TOPIC_SETTINGS
from mqcore.topic_defaults import check_default
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker

DESCRIBE, REPLACE, EDIT, LIST = 32, 33, 44, 74
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND = 0, 1, 2


def describe(
    broker: RunningBroker, kind: int, name: str, version: int = 4, keys: list[str] | None = None, **how: bool
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = broker.request(DESCRIBE, version, resources=[resource], **how).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def edit(
    broker: RunningBroker, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    (result,) = broker.request(EDIT, 1, resources=resources, validate_only=validate_only).responses
    return result


# Describing topics


@pytest.mark.parametrize("version", [1, 4])
def test_all_settings_of_a_topic_are_described(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders", configs={"retention.ms": "1000"})
    result = describe(broker, TOPIC, "orders", version)
    assert result.error_code == ErrorCode.NONE
    told = {config.name: config for config in result.configs}
    assert list(told) == list(TOPIC_SETTINGS)
    own, default = told["retention.ms"], told["segment.bytes"]
    assert (own.value, own.config_source) == ("1000", ConfigSource.DYNAMIC_TOPIC)
    assert (default.value, default.config_source) == ("1073741824", ConfigSource.DEFAULT)
    assert not own.read_only and not own.is_sensitive and own.synonyms == [] and not own.documentation
    assert own.config_type == (SettingType.LONG if version >= 3 else 0)


def test_requested_synonyms_are_ordered_by_precedence(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, "log.retention.ms=4") as broker:
        broker.create_topic("orders", configs={"retention.ms": "1"})
        edit(broker, BROKER, "1", ("log.retention.ms", SET, "2"))
        edit(broker, BROKER, "", ("log.retention.ms", SET, "3"))
        (config,) = describe(broker, TOPIC, "orders", keys=["retention.ms"], include_synonyms=True).configs
    assert [tuple(synonym) for synonym in config.synonyms] == [
        ("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
    ]


def test_documentation_is_included_on_request(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    configs = describe(broker, TOPIC, "orders", include_documentation=True).configs
    assert all(config.documentation for config in configs)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (["flush.ms", "nope"], {"flush.ms"}),
        (["nope"], set()),
        ([], set(TOPIC_SETTINGS)),
        (None, set(TOPIC_SETTINGS)),
    ],
)
def test_only_requested_settings_are_described(broker: RunningBroker, keys: list[str] | None, found: set[str]) -> None:
    broker.create_topic("orders")
    assert {config.name for config in describe(broker, TOPIC, "orders", keys=keys).configs} == found


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.NONE),
        (ResourceType.GROUP, "readers", ErrorCode.NONE),
        (ResourceType.CLIENT_METRICS, "all", ErrorCode.NONE),
        (99, "what", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_without_settings_gets_an_empty_list_or_an_error(
    broker: RunningBroker, kind: int, name: str, error: ErrorCode
) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert (result.error_message is None) is (error is ErrorCode.NONE)


# Describing brokers


def test_a_broker_describes_its_file_settings_and_the_topic_defaults(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, "num.partitions=5", "log.retention.ms=777") as broker:
        configs = describe(broker, BROKER, "1", include_synonyms=True, include_documentation=True).configs
    told = {config.name: config for config in configs}
    assert set(told) == set(settings()) | set(BROKER_SYNONYMS) | set(SETTINGS_WITHOUT_EFFECT)
    partitions, retention = told["num.partitions"], told["log.retention.ms"]
    assert (partitions.value, partitions.read_only, partitions.config_source) == ("5", True, ConfigSource.STATIC_BROKER)
    assert [synonym.value for synonym in partitions.synonyms] == ["5", "1"]
    assert (retention.value, retention.read_only) == ("777", False)
    assert told["auto.create.topics.enable"].config_type == SettingType.BOOLEAN
    assert all(config.documentation for config in configs)


def test_the_advertised_listeners_are_described_with_their_real_ports(broker: RunningBroker) -> None:
    (config,) = describe(broker, BROKER, "1", keys=["advertised.listeners"]).configs
    assert config.value == "PLAINTEXT://127.0.0.1:0" and config.config_source == ConfigSource.STATIC_BROKER


def test_the_cluster_default_describes_only_changed_settings(broker: RunningBroker) -> None:
    assert describe(broker, BROKER, "").configs == []
    edit(broker, BROKER, "", ("log.retention.ms", SET, "3"))
    (config,) = describe(broker, BROKER, "").configs
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", "3", 3)


# Changing


def test_new_topic_settings_are_in_effect_when_the_request_is_answered(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    assert edit(broker, TOPIC, "orders", ("flush.messages", SET, "1")).error_code == ErrorCode.NONE
    assert broker.log_settings("orders").flush_messages == 1
    edit(broker, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"), ("flush.messages", DELETE, None))
    config = broker.log_settings("orders")
    assert config.compact and config.delete and config.flush_messages > 1


@pytest.mark.parametrize("version", [0, 2])
def test_replacing_settings_resets_those_that_are_not_named(broker: RunningBroker, version: int) -> None:
    broker.create_topic("orders", configs={"flush.ms": "5", "retention.ms": "6"})
    configs = [{"name": "retention.ms", "value": "7"}]
    resources = [{"resource_type": TOPIC, "resource_name": "orders", "configs": configs}]
    (result,) = broker.request(REPLACE, version, resources=resources).responses
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    config = broker.log_settings("orders")
    assert config.retention_ms == 7 and config.flush_ms > 5


def test_the_error_for_a_wrong_value_says_what_is_wrong(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    result = edit(broker, TOPIC, "orders", ("retention.ms", SET, "soon"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms" in result.error_message and "soon" in result.error_message


def test_a_change_of_settings_can_be_validated_without_being_made(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    assert edit(broker, TOPIC, "orders", ("flush.ms", SET, "5"), validate_only=True).error_code == ErrorCode.NONE
    assert edit(broker, TOPIC, "orders", ("flush.ms", 7, "5"), validate_only=True).error_code == 42
    assert broker.log_settings("orders").flush_ms > 5


@pytest.mark.parametrize("broker_name", ["", "1"])
def test_a_new_broker_default_takes_effect_for_topics_without_their_own_value(tmp_path: Path, broker_name: str) -> None:
    with RunningBroker(tmp_path, "log.retention.ms=777") as broker:
        broker.create_topic("orders")
        broker.create_topic("stock", configs={"retention.ms": "1"})
        edit(broker, BROKER, broker_name, ("log.retention.ms", SET, "888"))
        assert broker.log_settings("orders").retention_ms == 888
        assert broker.log_settings("stock").retention_ms == 1
    with RunningBroker(tmp_path, "log.retention.ms=777") as broker:
        assert broker.log_settings("orders").retention_ms == 888
        edit(broker, BROKER, broker_name, ("log.retention.ms", DELETE, None))
        assert broker.log_settings("orders").retention_ms == 777


def test_the_default_of_one_broker_overrides_the_cluster_default(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    edit(broker, BROKER, "1", ("log.retention.ms", SET, "1"))
    edit(broker, BROKER, "", ("log.retention.ms", SET, "2"))
    assert broker.log_settings("orders").retention_ms == 1


def test_a_setting_that_is_read_at_startup_cannot_be_changed(broker: RunningBroker) -> None:
    result = edit(broker, BROKER, "1", ("num.partitions", SET, "5"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "reads them only at its start" in result.error_message


# Listing


def test_every_resource_with_settings_is_listed_by_type(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    listed = broker.request(LIST, 1, resource_types=[]).config_resources
    assert {(each.resource_type, each.resource_name) for each in listed} == {(2, "orders"), (4, "1"), (8, "1")}
    (topic,) = broker.request(LIST, 1, resource_types=[TOPIC]).config_resources
    assert topic.resource_name == "orders"


def test_version_0_lists_only_client_metrics_which_do_not_exist(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    assert broker.request(LIST, 0).config_resources == []


def test_an_unknown_resource_type_is_refused(broker: RunningBroker) -> None:
    assert broker.request(LIST, 1, resource_types=[99]).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("size", ["104857601", "2147483647"])
def test_max_message_bytes_may_not_exceed_the_largest_request(broker: RunningBroker, size: str) -> None:
    broker.create_topic("orders")
    changed = edit(broker, TOPIC, "orders", ("max.message.bytes", SET, size))
    assert changed.error_code == ErrorCode.INVALID_CONFIG and "socket.request.max.bytes" in changed.error_message
    changed = edit(broker, BROKER, "", ("message.max.bytes", SET, size))
    assert changed.error_code == ErrorCode.INVALID_CONFIG and "socket.request.max.bytes" in changed.error_message
    wanted = {"name": "bomb", "num_partitions": 1, "replication_factor": 1}
    configs = [{"name": "max.message.bytes", "value": size}]
    (made,) = broker.request(19, 7, topics=[{**wanted, "configs": configs}], timeout_ms=1000).topics
    assert made.error_code == ErrorCode.INVALID_CONFIG
    assert edit(broker, TOPIC, "orders", ("max.message.bytes", SET, "104857600")).error_code == ErrorCode.NONE


def test_the_default_of_max_message_bytes_may_not_exceed_the_largest_request() -> None:
    with pytest.raises(BadConfig, match=r"message\.max\.bytes"):
        parse_config("", ["message.max.bytes=2000", "socket.request.max.bytes=1024"], check_default)


@pytest.mark.parametrize("broker_name", ["1", ""])
def test_settings_that_kafka_can_change_at_run_time_are_stored_and_described(
    broker: RunningBroker, broker_name: str
) -> None:
    for name, row in SETTINGS_WITHOUT_EFFECT.items():
        result = edit(broker, BROKER, broker_name, (name, SET, row.default))
        assert result.error_code == ErrorCode.NONE, (name, result.error_message)
    told = {config.name: config for config in describe(broker, BROKER, broker_name, include_documentation=True).configs}
    for name, row in SETTINGS_WITHOUT_EFFECT.items():
        assert (told[name].value, told[name].read_only) == (row.default, False)
        assert told[name].config_source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        assert "has no effect" in told[name].documentation
    assert edit(broker, BROKER, broker_name, ("log.cleaner.threads", SET, "4")).error_code == ErrorCode.NONE
    assert (
        edit(broker, BROKER, broker_name, ("log.cleaner.threads", SET, "many")).error_code == ErrorCode.INVALID_CONFIG
    )
    assert edit(broker, BROKER, broker_name, ("log.cleaner.threads", DELETE, None)).error_code == ErrorCode.NONE
    assert edit(broker, BROKER, broker_name, ("ssl.cipher.suites", APPEND, "A")).error_code == ErrorCode.NONE
    assert broker.services.config.max_connections > 0


def test_stored_settings_survive_a_restart_and_do_not_change_file_settings(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, "max.connections=77") as broker:
        assert edit(broker, BROKER, "1", ("max.connections", SET, "5")).error_code == ErrorCode.NONE
    with RunningBroker(tmp_path, "max.connections=77") as broker:
        (told,) = describe(broker, BROKER, "1", keys=["max.connections"], include_synonyms=True).configs
        assert [synonym.value for synonym in told.synonyms] == [
            "5",
            "77",
            SETTINGS_WITHOUT_EFFECT["max.connections"].default,
        ]
        assert broker.services.config.max_connections == 77


def test_secrets_are_not_stored(broker: RunningBroker) -> None:
    end = broker.services.quorum.log.end_offset
    for name in SECRETS:
        result = edit(broker, BROKER, "1", (name, SET, "hunter2"))
        assert result.error_code == ErrorCode.INVALID_REQUEST and "does not store secrets" in result.error_message
    assert broker.services.quorum.log.end_offset == end
