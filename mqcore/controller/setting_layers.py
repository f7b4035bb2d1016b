"""Machine: the effective value of a setting, and the layer that supplies it.

The first layer that has a value wins: the topic, this broker at run time, all brokers at run time, the broker's file,
Kafka's default. The settings of the broker itself are read from its file once, at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from enum import IntEnum
from typing import Any, NamedTuple

from mqcore.config import BrokerConfig, as_text
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.settings_without_effect import SETTINGS_WITHOUT_EFFECT
from mqcore.log.setting_types import SettingType, TopicSetting
from mqcore.log.topic_config import TOPIC_SETTINGS

BROKER_SYNONYMS: dict[str, TopicSetting] = {row.synonym: row for row in TOPIC_SETTINGS.values() if row.synonym}
"""Settings of a broker that are the defaults of its topics. They can be changed while the broker runs."""

DYNAMIC_BROKER = {**BROKER_SYNONYMS, **SETTINGS_WITHOUT_EFFECT}
"""All settings of a broker that can be changed while it runs, including those without effect."""

DEFAULT_RESOURCE = ""
"""The name of the resource that stands for all brokers."""


class ConfigSource(IntEnum):
    """The layers, with the protocol's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Layer(NamedTuple):
    """A value of a setting in one layer, and the name of the setting in that layer."""

    name: str
    value: str
    source: ConfigSource


class Setting(NamedTuple):
    """How a setting is described to clients, without its value."""

    name: str
    type: SettingType
    read_only: bool
    documentation: str


CLUSTER_WIDE = frozenset({"min.insync.replicas"})
"""Settings that all brokers must see alike, so neither a broker's file nor a value for one broker counts.

A leader and a controller that disagree about min.insync.replicas would acknowledge records on too few replicas
(KAFKA-16540). The file of the first controller seeds the cluster's value.
"""


def cluster_value(image: ClusterImage, configs: Mapping[str, str], name: str) -> str:
    """The value of a topic's setting that every broker sees alike: the topic's, the cluster's, or Kafka's default."""
    if name in configs:
        return configs[name]
    row = TOPIC_SETTINGS[name]
    return image.configs(ResourceType.BROKER, DEFAULT_RESOURCE).get(row.synonym or name, row.default)


def layers(
    row: TopicSetting, configs: Mapping[str, str], image: ClusterImage, broker: int, file: Mapping[str, str]
) -> list[Layer]:
    """All values of a topic's setting, the effective one first."""
    synonym = row.synonym or row.name
    found = [
        Layer(row.name if source is ConfigSource.DYNAMIC_TOPIC else synonym, values[row.name], source)
        for source, values in _topic_sources(configs, image, broker, file)
        if row.name in values
    ]
    return [*found, Layer(synonym, row.default, ConfigSource.DEFAULT)]


def effective_settings(
    configs: Mapping[str, str], image: ClusterImage, broker: int, file: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a topic that differ from Kafka's defaults, by topic setting names."""
    effective: dict[str, str] = {}
    for _, values in reversed(_topic_sources(configs, image, broker, file)):
        effective |= values
    return effective


def _topic_sources(
    configs: Mapping[str, str], image: ClusterImage, broker: int, file: Mapping[str, str]
) -> list[tuple[ConfigSource, Mapping[str, str]]]:
    """Where the settings of a topic come from, the strongest source first; all by topic setting names."""
    own, shared = (
        _by_topic_names(image.configs(ResourceType.BROKER, resource)) for resource, _ in _changed_at_run_time(broker)
    )
    return [
        (ConfigSource.DYNAMIC_TOPIC, configs),
        (ConfigSource.DYNAMIC_BROKER, _without_cluster_wide(own)),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, shared),
        (ConfigSource.STATIC_BROKER, _without_cluster_wide(file)),
    ]


def _without_cluster_wide(values: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in values.items() if name not in CLUSTER_WIDE}


def _by_topic_names(broker_configs: Mapping[str, str]) -> dict[str, str]:
    return {BROKER_SYNONYMS[name].name: value for name, value in broker_configs.items() if name in BROKER_SYNONYMS}


def layers_without_effect(row: TopicSetting, file: list[Layer], image: ClusterImage, broker: int) -> list[Layer]:
    """All values of a broker setting without effect, the strongest first. `file`: its layers in the broker's file."""
    found = []
    for resource, source in _changed_at_run_time(broker):
        value = image.configs(ResourceType.BROKER, resource).get(row.name)
        if value is not None:
            found.append(Layer(row.name, value, source))
    return found + (file or [Layer(row.name, row.default, ConfigSource.DEFAULT)])


def _changed_at_run_time(broker: int) -> tuple[tuple[str, ConfigSource], ...]:
    return (str(broker), ConfigSource.DYNAMIC_BROKER), (DEFAULT_RESOURCE, ConfigSource.DYNAMIC_DEFAULT_BROKER)


def file_layers(config: BrokerConfig, name: str, field: Field[Any]) -> list[Layer]:
    """The value of a broker's own setting and its default. A value that equals its default counts as not set."""
    default = Layer(name, as_text(field.default), ConfigSource.DEFAULT)
    value = as_text(getattr(config, field.name))
    if name == "advertised.listeners" and not value:
        value = config.listeners  # clients get these addresses then
    return [default] if value == default.value else [Layer(name, value, ConfigSource.STATIC_BROKER), default]
