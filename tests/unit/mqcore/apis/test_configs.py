"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: told, changed, and in effect at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqcore.config import BadConfig, read, settings
from mqcore.controller.facts import ResourceType
from mqcore.controller.kept_settings import BROKER_KEPT, SECRETS
from mqcore.controller.settings import BROKER_SYNONYMS, ConfigSource
from mqcore.log.config import TOPIC_SETTINGS, SettingType
from mqcore.settings import check_default
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack

DESCRIBE, REPLACE, EDIT, LIST = 32, 33, 44, 74
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND = 0, 1, 2


def describe(stack: Stack, kind: int, name: str, version: int = 4, keys: list[str] | None = None, **how: bool) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = stack.ask(DESCRIBE, version, resources=[resource], **how).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def edit(stack: Stack, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    (result,) = stack.ask(EDIT, 1, resources=resources, validate_only=validate_only).responses
    return result


# Describing topics


@pytest.mark.parametrize("version", [1, 4])
def test_a_topic_tells_all_its_settings(stack: Stack, version: int) -> None:
    stack.create("orders", configs={"retention.ms": "1000"})
    result = describe(stack, TOPIC, "orders", version)
    assert result.error_code == ErrorCode.NONE
    told = {config.name: config for config in result.configs}
    assert list(told) == list(TOPIC_SETTINGS)
    own, default = told["retention.ms"], told["segment.bytes"]
    assert (own.value, own.config_source) == ("1000", ConfigSource.DYNAMIC_TOPIC)
    assert (default.value, default.config_source) == ("1073741824", ConfigSource.DEFAULT)
    assert not own.read_only and not own.is_sensitive and own.synonyms == [] and not own.documentation
    assert own.config_type == (SettingType.LONG if version >= 3 else 0)


def test_synonyms_come_nearest_first_when_asked_for(tmp_path: Path) -> None:
    with Stack(tmp_path, "log.retention.ms=4") as stack:
        stack.create("orders", configs={"retention.ms": "1"})
        edit(stack, BROKER, "1", ("log.retention.ms", SET, "2"))
        edit(stack, BROKER, "", ("log.retention.ms", SET, "3"))
        (config,) = describe(stack, TOPIC, "orders", keys=["retention.ms"], include_synonyms=True).configs
    assert [tuple(synonym) for synonym in config.synonyms] == [
        ("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
    ]


def test_documentation_comes_when_asked_for(stack: Stack) -> None:
    stack.create("orders")
    configs = describe(stack, TOPIC, "orders", include_documentation=True).configs
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
def test_only_the_settings_asked_for_are_told(stack: Stack, keys: list[str] | None, found: set[str]) -> None:
    stack.create("orders")
    assert {config.name for config in describe(stack, TOPIC, "orders", keys=keys).configs} == found


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
def test_what_has_no_settings_has_an_empty_list_or_an_error(
    stack: Stack, kind: int, name: str, error: ErrorCode
) -> None:
    result = describe(stack, kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert (result.error_message is None) is (error is ErrorCode.NONE)


# Describing brokers


def test_a_broker_tells_what_its_file_says_and_the_defaults_of_topics(tmp_path: Path) -> None:
    with Stack(tmp_path, "num.partitions=5", "log.retention.ms=777") as stack:
        configs = describe(stack, BROKER, "1", include_synonyms=True, include_documentation=True).configs
    told = {config.name: config for config in configs}
    assert set(told) == set(settings()) | set(BROKER_SYNONYMS) | set(BROKER_KEPT)
    partitions, retention = told["num.partitions"], told["log.retention.ms"]
    assert (partitions.value, partitions.read_only, partitions.config_source) == ("5", True, ConfigSource.STATIC_BROKER)
    assert [synonym.value for synonym in partitions.synonyms] == ["5", "1"]
    assert (retention.value, retention.read_only) == ("777", False)
    assert told["auto.create.topics.enable"].config_type == SettingType.BOOLEAN
    assert all(config.documentation for config in configs)


def test_addresses_told_to_clients_are_those_in_use(stack: Stack) -> None:
    (config,) = describe(stack, BROKER, "1", keys=["advertised.listeners"]).configs
    assert config.value == "PLAINTEXT://127.0.0.1:0" and config.config_source == ConfigSource.STATIC_BROKER


def test_the_default_of_all_brokers_tells_only_what_was_changed(stack: Stack) -> None:
    assert describe(stack, BROKER, "").configs == []
    edit(stack, BROKER, "", ("log.retention.ms", SET, "3"))
    (config,) = describe(stack, BROKER, "").configs
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", "3", 3)


# Changing


def test_a_topics_new_settings_are_in_effect_when_it_is_answered(stack: Stack) -> None:
    stack.create("orders")
    assert edit(stack, TOPIC, "orders", ("flush.messages", SET, "1")).error_code == ErrorCode.NONE
    assert stack.settings_of("orders").flush_messages == 1
    edit(stack, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"), ("flush.messages", DELETE, None))
    config = stack.settings_of("orders")
    assert config.compact and config.delete and config.flush_messages > 1


@pytest.mark.parametrize("version", [0, 2])
def test_replacing_takes_back_what_is_not_named(stack: Stack, version: int) -> None:
    stack.create("orders", configs={"flush.ms": "5", "retention.ms": "6"})
    configs = [{"name": "retention.ms", "value": "7"}]
    resources = [{"resource_type": TOPIC, "resource_name": "orders", "configs": configs}]
    (result,) = stack.ask(REPLACE, version, resources=resources).responses
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    config = stack.settings_of("orders")
    assert config.retention_ms == 7 and config.flush_ms > 5


def test_a_wrong_value_says_what_is_wrong_with_it(stack: Stack) -> None:
    stack.create("orders")
    result = edit(stack, TOPIC, "orders", ("retention.ms", SET, "soon"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms" in result.error_message and "soon" in result.error_message


def test_a_change_can_be_only_checked(stack: Stack) -> None:
    stack.create("orders")
    assert edit(stack, TOPIC, "orders", ("flush.ms", SET, "5"), validate_only=True).error_code == ErrorCode.NONE
    assert edit(stack, TOPIC, "orders", ("flush.ms", 7, "5"), validate_only=True).error_code == 42
    assert stack.settings_of("orders").flush_ms > 5


@pytest.mark.parametrize("broker", ["", "1"])
def test_a_brokers_new_default_is_in_effect_for_topics_that_say_nothing(tmp_path: Path, broker: str) -> None:
    with Stack(tmp_path, "log.retention.ms=777") as stack:
        stack.create("orders")
        stack.create("stock", configs={"retention.ms": "1"})
        edit(stack, BROKER, broker, ("log.retention.ms", SET, "888"))
        assert stack.settings_of("orders").retention_ms == 888
        assert stack.settings_of("stock").retention_ms == 1
    with Stack(tmp_path, "log.retention.ms=777") as stack:
        assert stack.settings_of("orders").retention_ms == 888
        edit(stack, BROKER, broker, ("log.retention.ms", DELETE, None))
        assert stack.settings_of("orders").retention_ms == 777


def test_one_brokers_default_comes_before_that_of_all(stack: Stack) -> None:
    stack.create("orders")
    edit(stack, BROKER, "1", ("log.retention.ms", SET, "1"))
    edit(stack, BROKER, "", ("log.retention.ms", SET, "2"))
    assert stack.settings_of("orders").retention_ms == 1


def test_what_a_broker_reads_at_its_start_cannot_be_changed(stack: Stack) -> None:
    result = edit(stack, BROKER, "1", ("num.partitions", SET, "5"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot be changed while the broker runs" in result.error_message


# Listing


def test_everything_with_settings_is_listed_by_type(stack: Stack) -> None:
    stack.create("orders")
    listed = stack.ask(LIST, 1, resource_types=[]).config_resources
    assert {(each.resource_type, each.resource_name) for each in listed} == {(2, "orders"), (4, "1"), (8, "1")}
    (topic,) = stack.ask(LIST, 1, resource_types=[TOPIC]).config_resources
    assert topic.resource_name == "orders"


def test_version_0_lists_client_metrics_and_there_are_none(stack: Stack) -> None:
    stack.create("orders")
    assert stack.ask(LIST, 0).config_resources == []


def test_an_unknown_type_cannot_be_listed(stack: Stack) -> None:
    assert stack.ask(LIST, 1, resource_types=[99]).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("size", ["104857601", "2147483647"])
def test_a_batch_may_not_be_larger_than_a_request(stack: Stack, size: str) -> None:
    stack.create("orders")
    changed = edit(stack, TOPIC, "orders", ("max.message.bytes", SET, size))
    assert changed.error_code == ErrorCode.INVALID_CONFIG and "socket.request.max.bytes" in changed.error_message
    changed = edit(stack, BROKER, "", ("message.max.bytes", SET, size))
    assert changed.error_code == ErrorCode.INVALID_CONFIG and "socket.request.max.bytes" in changed.error_message
    wanted = {"name": "bomb", "num_partitions": 1, "replication_factor": 1}
    configs = [{"name": "max.message.bytes", "value": size}]
    (made,) = stack.ask(19, 7, topics=[{**wanted, "configs": configs}], timeout_ms=1000).topics
    assert made.error_code == ErrorCode.INVALID_CONFIG
    assert edit(stack, TOPIC, "orders", ("max.message.bytes", SET, "104857600")).error_code == ErrorCode.NONE


def test_a_default_of_all_topics_in_the_file_is_no_larger_than_a_request() -> None:
    with pytest.raises(BadConfig, match=r"message\.max\.bytes"):
        read("", ["message.max.bytes=2000", "socket.request.max.bytes=1024"], check_default)


@pytest.mark.parametrize("broker", ["1", ""])
def test_settings_that_kafka_can_change_while_it_runs_are_kept_and_described(stack: Stack, broker: str) -> None:
    for name, row in BROKER_KEPT.items():
        result = edit(stack, BROKER, broker, (name, SET, row.default))
        assert result.error_code == ErrorCode.NONE, (name, result.error_message)
    told = {config.name: config for config in describe(stack, BROKER, broker, include_documentation=True).configs}
    for name, row in BROKER_KEPT.items():
        assert (told[name].value, told[name].read_only) == (row.default, False)
        assert told[name].config_source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        assert "Without effect" in told[name].documentation
    assert edit(stack, BROKER, broker, ("log.cleaner.threads", SET, "4")).error_code == ErrorCode.NONE
    assert edit(stack, BROKER, broker, ("log.cleaner.threads", SET, "many")).error_code == ErrorCode.INVALID_CONFIG
    assert edit(stack, BROKER, broker, ("log.cleaner.threads", DELETE, None)).error_code == ErrorCode.NONE
    assert edit(stack, BROKER, broker, ("ssl.cipher.suites", APPEND, "A")).error_code == ErrorCode.NONE
    assert stack.services.config.max_connections > 0


def test_what_is_kept_outlives_a_restart_and_does_not_change_what_the_file_says(tmp_path: Path) -> None:
    with Stack(tmp_path, "max.connections=77") as stack:
        assert edit(stack, BROKER, "1", ("max.connections", SET, "5")).error_code == ErrorCode.NONE
    with Stack(tmp_path, "max.connections=77") as stack:
        (told,) = describe(stack, BROKER, "1", keys=["max.connections"], include_synonyms=True).configs
        assert [synonym.value for synonym in told.synonyms] == ["5", "77", BROKER_KEPT["max.connections"].default]
        assert stack.services.config.max_connections == 77


def test_secrets_are_not_kept(stack: Stack) -> None:
    end = stack.services.observer.partition.log.end_offset
    for name in SECRETS:
        result = edit(stack, BROKER, "1", (name, SET, "hunter2"))
        assert result.error_code == ErrorCode.INVALID_REQUEST and "does not keep secrets" in result.error_message
    assert stack.services.observer.partition.log.end_offset == end
