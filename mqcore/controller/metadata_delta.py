"""Machine: what this broker has to do because the cluster's metadata has changed.

A delta compares the image with what was taken from it the last time. So one path serves a start, where nothing has been
taken yet, a single changed setting, and a hundred facts that arrive together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.setting_layers import DEFAULT_RESOURCE
from mqcore.identity import BrokerId


class TopicDeleted(NamedTuple):
    topic: TopicImage


class PartitionTouched(NamedTuple):
    """A partition with a replica on this broker, now or before, is new or has changed."""

    topic_id: UUID
    partition: int


class TopicSettingsChanged(NamedTuple):
    topic: str


@dataclass(frozen=True, slots=True)
class BrokerSettingsChanged:
    """A default that applies to the topics of this broker."""


Change = TopicDeleted | PartitionTouched | TopicSettingsChanged | BrokerSettingsChanged


class MetadataDelta:
    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._broker_resources = (DEFAULT_RESOURCE, str(broker))
        self._topics: Mapping[UUID, TopicImage] = {}
        self._broker_settings: list[Mapping[str, str]] = [{}, {}]

    def take(self, image: ClusterImage) -> list[Change]:
        """The changes since the last call. Deletions come first, because a new topic may reuse an old name."""
        before, self._topics = self._topics, dict(image.topics_by_id)
        changes: list[Change] = [
            TopicDeleted(topic) for topic_id, topic in before.items() if topic_id not in self._topics
        ]
        for topic_id, topic in self._topics.items():
            old = before.get(topic_id)
            if topic is not old:
                changes += _touched(topic, () if old is None else old.partitions, self._broker)
                if old is not None and topic.configs != old.configs:
                    changes.append(TopicSettingsChanged(topic.name))
        settings = [image.configs(ResourceType.BROKER, resource) for resource in self._broker_resources]
        if settings != self._broker_settings:
            self._broker_settings = settings
            changes.append(BrokerSettingsChanged())
        return changes


def _touched(topic: TopicImage, before: Sequence[PartitionImage], broker: BrokerId) -> Iterator[Change]:
    """An unchanged partition is the same object, so a topic with many partitions is compared quickly."""
    for partition in topic.partitions:
        old = before[partition.index] if partition.index < len(before) else None
        if partition is not old and (broker in partition.replicas or (old is not None and broker in old.replicas)):
            yield PartitionTouched(topic.id, partition.index)
