"""Where the value of a setting comes from, and what comes before what."""

from __future__ import annotations

from mqcore.config import BrokerConfig, settings
from mqcore.controller.facts import ConfigChanged, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.settings import ConfigSource, Layer, file_layers, layers
from mqcore.log.config import TOPIC_SETTINGS

RETENTION = TOPIC_SETTINGS["retention.ms"]
DEFAULT = Layer("log.retention.ms", "604800000", ConfigSource.DEFAULT)


def image_with(**values: str) -> ClusterImage:
    """log.retention.ms of brokers, by their names after an underscore."""
    image = ClusterImage()
    for broker, value in values.items():
        image.apply(ConfigChanged(ResourceType.BROKER, broker.removeprefix("_"), "log.retention.ms", value))
    return image


def test_without_more_it_is_the_default() -> None:
    assert layers(RETENTION, {}, ClusterImage(), 1, {}) == [DEFAULT]


def test_the_nearest_value_counts_and_the_others_are_told_in_order() -> None:
    image = image_with(_1="2", _2="9", _="3")
    assert layers(RETENTION, {"retention.ms": "1"}, image, 1, {"retention.ms": "4"}) == [
        Layer("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        Layer("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        Layer("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Layer("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        DEFAULT,
    ]


def test_a_setting_without_a_broker_synonym_knows_topic_and_default_only() -> None:
    row = TOPIC_SETTINGS["remote.log.copy.disable"]
    assert layers(row, {}, ClusterImage(), 1, {}) == [Layer(row.name, "false", ConfigSource.DEFAULT)]


def test_a_brokers_own_setting_comes_from_its_file_or_is_the_default() -> None:
    fields = settings()
    config = BrokerConfig(num_partitions=5)
    assert file_layers(config, "num.partitions", fields["num.partitions"]) == [
        Layer("num.partitions", "5", ConfigSource.STATIC_BROKER),
        Layer("num.partitions", "1", ConfigSource.DEFAULT),
    ]
    name = "auto.create.topics.enable"
    assert file_layers(config, name, fields[name]) == [Layer(name, "true", ConfigSource.DEFAULT)]


def test_addresses_that_are_not_advertised_apart_are_those_listened_on() -> None:
    name = "advertised.listeners"
    assert file_layers(BrokerConfig(), name, settings()[name])[0].value == "PLAINTEXT://127.0.0.1:9092"
