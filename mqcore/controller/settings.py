"""Machine: what a setting is worth, and where that comes from.

A topic's setting is its own; else this broker's, changed at run time; else all brokers', changed at run time; else
that of the broker's file; else Kafka's default. The broker's own settings are read from its file, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from enum import IntEnum
from typing import Any, NamedTuple

from mqcore.config import BrokerConfig, as_text
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.kept_settings import BROKER_KEPT
from mqcore.log.config import TOPIC_SETTINGS, SettingType, TopicSetting

BROKER_SYNONYMS: dict[str, TopicSetting] = {row.synonym: row for row in TOPIC_SETTINGS.values() if row.synonym}
"""Settings of a broker that are the defaults of all its topics; these alone can be changed while it runs."""

DYNAMIC_BROKER = {**BROKER_SYNONYMS, **BROKER_KEPT}
"""All that can be changed of a broker while it runs, also what has no effect."""

DEFAULT_RESOURCE = ""
"""The resource that stands for all brokers."""


class ConfigSource(IntEnum):
    """By the protocol's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Layer(NamedTuple):
    """One place that gives a setting a value, by the name it has there."""

    name: str
    value: str
    source: ConfigSource


class Setting(NamedTuple):
    """What a client is told of a setting besides its value."""

    name: str
    type: SettingType
    read_only: bool
    documentation: str


def layers(
    row: TopicSetting, configs: Mapping[str, str], image: ClusterImage, broker: int, file: Mapping[str, str]
) -> list[Layer]:
    """All values of a topic's setting, the one that counts first. `file` goes by the names that topics use."""
    found = []
    if row.name in configs:
        found.append(Layer(row.name, configs[row.name], ConfigSource.DYNAMIC_TOPIC))
    synonym = row.synonym or row.name
    for resource, source in _changed_at_run_time(broker):
        value = image.configs(ResourceType.BROKER, resource).get(synonym)
        if value is not None:
            found.append(Layer(synonym, value, source))
    if row.name in file:
        found.append(Layer(synonym, file[row.name], ConfigSource.STATIC_BROKER))
    found.append(Layer(synonym, row.default, ConfigSource.DEFAULT))
    return found


def kept_layers(row: TopicSetting, file: list[Layer], image: ClusterImage, broker: int) -> list[Layer]:
    """All values of a broker's setting that is kept without effect. `file`: what its file says, if it is read there."""
    found = []
    for resource, source in _changed_at_run_time(broker):
        value = image.configs(ResourceType.BROKER, resource).get(row.name)
        if value is not None:
            found.append(Layer(row.name, value, source))
    return found + (file or [Layer(row.name, row.default, ConfigSource.DEFAULT)])


def _changed_at_run_time(broker: int) -> tuple[tuple[str, ConfigSource], ...]:
    return (str(broker), ConfigSource.DYNAMIC_BROKER), (DEFAULT_RESOURCE, ConfigSource.DYNAMIC_DEFAULT_BROKER)


def file_layers(config: BrokerConfig, name: str, field: Field[Any]) -> list[Layer]:
    """The value of a broker's own setting, then its default. What equals its default counts as not set."""
    default = Layer(name, as_text(field.default), ConfigSource.DEFAULT)
    value = as_text(getattr(config, field.name))
    if name == "advertised.listeners" and not value:
        value = config.listeners  # what clients are told then
    return [default] if value == default.value else [Layer(name, value, ConfigSource.STATIC_BROKER), default]
