"""The layers of a setting, and which of them wins."""

from __future__ import annotations

import pytest

from mqcore.config import BrokerConfig, settings
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.setting_layers import ConfigSource, Layer, effective_settings, file_layers, layers
from mqcore.log.topic_config import TOPIC_SETTINGS

RETENTION = TOPIC_SETTINGS["retention.ms"]
DEFAULT = Layer("log.retention.ms", "604800000", ConfigSource.DEFAULT)


def image_with(**values: str) -> ClusterImage:
    """Sets log.retention.ms for brokers; each keyword is an underscore and the name of the broker."""
    image = ClusterImage()
    for broker, value in values.items():
        image.apply(ConfigChanged(ResourceType.BROKER, broker.removeprefix("_"), "log.retention.ms", value))
    return image


def test_without_other_layers_the_default_is_effective() -> None:
    assert layers(RETENTION, {}, ClusterImage(), 1, {}) == [DEFAULT]


def test_the_effective_value_comes_first_and_the_other_layers_follow_in_order() -> None:
    image = image_with(_1="2", _2="9", _="3")
    assert layers(RETENTION, {"retention.ms": "1"}, image, 1, {"retention.ms": "4"}) == [
        Layer("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        Layer("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        Layer("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Layer("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        DEFAULT,
    ]


@pytest.mark.parametrize("count", range(5))
def test_the_effective_value_is_the_first_of_the_described_layers(count: int) -> None:
    topic, image, file = {}, ClusterImage(), {}
    if count >= 1:
        file = {"retention.ms": "4"}
    if count >= 2:
        image = image_with(_="3")
    if count >= 3:
        image = image_with(_1="2", _2="9", _="3")
    if count >= 4:
        topic = {"retention.ms": "1"}
    described = layers(RETENTION, topic, image, 1, file)
    assert len(described) == count + 1
    effective = effective_settings(topic, image, 1, file)
    assert effective.get("retention.ms", RETENTION.default) == described[0].value


def test_broker_settings_that_are_not_topic_defaults_do_not_reach_topics() -> None:
    image = ClusterImage()
    image.apply(ConfigChanged(ResourceType.BROKER, "1", "num.io.threads", "3"))
    assert effective_settings({}, image, 1, {}) == {}


def test_a_setting_without_a_broker_synonym_has_only_topic_and_default() -> None:
    row = TOPIC_SETTINGS["remote.log.copy.disable"]
    assert layers(row, {}, ClusterImage(), 1, {}) == [Layer(row.name, "false", ConfigSource.DEFAULT)]


def test_a_setting_of_the_broker_itself_comes_from_its_file_or_is_the_default() -> None:
    fields = settings()
    config = BrokerConfig(num_partitions=5)
    assert file_layers(config, "num.partitions", fields["num.partitions"]) == [
        Layer("num.partitions", "5", ConfigSource.STATIC_BROKER),
        Layer("num.partitions", "1", ConfigSource.DEFAULT),
    ]
    name = "auto.create.topics.enable"
    assert file_layers(config, name, fields[name]) == [Layer(name, "true", ConfigSource.DEFAULT)]


def test_without_advertised_listeners_the_listeners_are_advertised() -> None:
    name = "advertised.listeners"
    assert file_layers(BrokerConfig(), name, settings()[name])[0].value == "PLAINTEXT://127.0.0.1:9092"
