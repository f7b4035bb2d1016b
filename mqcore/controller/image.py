"""Machine: the image of the cluster: what all metadata facts together say. Only `apply` changes it.

The controller has one image of everything that is appended, and each broker has one of everything that is committed.
Both apply the same facts in the same way. A reader takes everything it needs at once, because the image may change with
the next event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never
from uuid import UUID

from mqcore.controller.facts import (
    BrokerRegistered,
    ConfigChanged,
    LeaderChanged,
    MetadataFact,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.identity import INTERNAL_TOPICS, BrokerId, LeaderEpoch

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    index: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class ClusterImage:
    def __init__(self) -> None:
        self.version = 0
        self.brokers: dict[BrokerId, BrokerRegistered] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.next_producer_id = 0
        self._configs: dict[tuple[ResourceType, str], dict[str, str]] = {}

    def configs(self, resource_type: ResourceType, resource: str) -> Mapping[str, str]:
        return self._configs.get((resource_type, resource), NO_CONFIGS)

    def configured_resources(self, resource_type: ResourceType) -> list[str]:
        """The resources of a type that have settings of their own."""
        return [name for kind, name in self._configs if kind == resource_type]

    def apply(self, fact: MetadataFact) -> None:
        self.version += 1
        match fact:
            case TopicCreated(name, topic_id):
                self._set_topic(TopicImage(name, topic_id, (), self.configs(ResourceType.TOPIC, name)))
            case PartitionCreated():
                topic = self.topics_by_id[fact.topic_id]
                assert fact.index == len(topic.partitions), "partitions are created in order"
                partition = PartitionImage(
                    fact.index, fact.replicas, fact.isr, fact.leader, fact.leader_epoch, fact.partition_epoch
                )
                self._set_topic(replace(topic, partitions=(*topic.partitions, partition)))
            case LeaderChanged():
                self._change_leader(fact)
            case TopicRemoved(topic_id):
                topic = self.topics_by_id.pop(topic_id)
                del self.topics[topic.name]
                self._configs.pop((ResourceType.TOPIC, topic.name), None)
            case ConfigChanged():
                self._change_config(fact)
            case BrokerRegistered():
                self.brokers[fact.broker] = fact
            case ProducerIdsReserved():
                self.next_producer_id = fact.next_producer_id
            case _:
                assert_never(fact)

    def _set_topic(self, topic: TopicImage) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic

    def _change_leader(self, fact: LeaderChanged) -> None:
        topic = self.topics_by_id[fact.topic_id]
        old = topic.partitions[fact.index]
        new = replace(
            old,
            leader=fact.leader,
            isr=fact.isr,
            leader_epoch=LeaderEpoch(old.leader_epoch + 1),
            partition_epoch=old.partition_epoch + 1,
        )
        self._set_topic(
            replace(topic, partitions=(*topic.partitions[: fact.index], new, *topic.partitions[fact.index + 1 :]))
        )

    def _change_config(self, fact: ConfigChanged) -> None:
        key = (fact.resource_type, fact.resource)
        configs = {name: value for name, value in self._configs.get(key, {}).items() if name != fact.name}
        if fact.value is not None:
            configs[fact.name] = fact.value
        if configs:
            self._configs[key] = configs
        else:
            self._configs.pop(key, None)
        if fact.resource_type == ResourceType.TOPIC and fact.resource in self.topics:
            self._set_topic(replace(self.topics[fact.resource], configs=MappingProxyType(configs)))
