"""Machine: the image of the cluster: what all metadata facts together say. Only `apply` changes it.

The controller has one image of everything that is appended, and each broker has one of everything that is committed.
Both apply the same facts in the same way. A reader takes everything it needs at once, because the image may change with
the next event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never
from uuid import UUID

from mqcore.controller.facts import (
    NO_LEADER,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    FeatureLevelSet,
    MetadataFact,
    NoOp,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.partition_list import PartitionList
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
    removing: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing or self.adding)


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: PartitionList[PartitionImage]
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
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._configs: dict[tuple[ResourceType, str], dict[str, str]] = {}

    def configs(self, resource_type: ResourceType, resource: str) -> Mapping[str, str]:
        return self._configs.get((resource_type, resource), NO_CONFIGS)

    def configured_resources(self, resource_type: ResourceType) -> list[str]:
        """The resources of a type that have settings of their own."""
        return [name for kind, name in self._configs if kind == resource_type]

    def partition(self, topic_id: UUID, index: int) -> PartitionImage | None:
        topic = self.topics_by_id.get(topic_id)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def partitions(self) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic in self.topics.values():
            for partition in topic.partitions:
                yield topic, partition

    def is_active(self, broker: BrokerId) -> bool:
        """Whether the broker is registered, serves clients and does not want to stop."""
        registered = self.brokers.get(broker)
        return registered is not None and registered.is_active

    def apply(self, fact: MetadataFact) -> None:
        self.version += 1
        match fact:
            case TopicCreated(name, topic_id):
                configs = self.configs(ResourceType.TOPIC, name)
                self._set_topic(TopicImage(name, topic_id, PartitionList(), configs))
            case PartitionCreated():
                self._create_partition(fact)
            case PartitionChanged():
                self._change_partition(fact)
            case TopicRemoved(topic_id):
                topic = self.topics_by_id.pop(topic_id)
                del self.topics[topic.name]
                self._configs.pop((ResourceType.TOPIC, topic.name), None)
            case ConfigChanged():
                self._change_config(fact)
            case BrokerRegistered():
                self.brokers[fact.broker] = fact
            case BrokerChanged():
                self._change_broker(fact)
            case BrokerUnregistered(broker):
                del self.brokers[broker]
            case ProducerIdsReserved():
                self.next_producer_id = fact.next_producer_id
            case FeatureLevelSet(feature, level):
                self.features[feature] = level
                if not level:
                    del self.features[feature]
            case NoOp():
                pass
            case _:
                assert_never(fact)

    def become(self, other: ClusterImage) -> None:
        """Take the content of `other`, which must not be used afterwards."""
        self.version += 1
        self.brokers, self.topics, self.topics_by_id = other.brokers, other.topics, other.topics_by_id
        self.features, self.next_producer_id, self._configs = other.features, other.next_producer_id, other._configs

    def facts(self) -> Iterator[MetadataFact]:
        """The image as facts: applied to an empty image they give this one again, but for its version."""
        for feature, level in self.features.items():
            yield FeatureLevelSet(feature, level)
        yield from self.brokers.values()
        for topic in self.topics.values():
            yield TopicCreated(topic.name, topic.id)
            yield from self._config_facts(ResourceType.TOPIC, topic.name)  # before the partitions, as at a creation
            for part in topic.partitions:
                yield PartitionCreated(
                    topic.id,
                    part.index,
                    part.replicas,
                    part.isr,
                    part.leader,
                    part.leader_epoch,
                    part.partition_epoch,
                    part.removing,
                    part.adding,
                )
        for kind, resource in self._configs:
            if kind is not ResourceType.TOPIC:
                yield from self._config_facts(kind, resource)
        if self.next_producer_id:
            yield ProducerIdsReserved(BrokerId(-1), -1, self.next_producer_id)

    def _config_facts(self, kind: ResourceType, resource: str) -> Iterator[ConfigChanged]:
        for name, value in self.configs(kind, resource).items():
            yield ConfigChanged(kind, resource, name, value)

    def _set_topic(self, topic: TopicImage) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic

    def _create_partition(self, fact: PartitionCreated) -> None:
        topic = self.topics_by_id[fact.topic_id]
        assert fact.partition == len(topic.partitions), "partitions are created in order"
        partition = PartitionImage(
            fact.partition,
            fact.replicas,
            fact.isr,
            fact.leader,
            fact.leader_epoch,
            fact.partition_epoch,
            fact.removing,
            fact.adding,
        )
        self._set_topic(replace(topic, partitions=topic.partitions.appended(partition)))

    def _change_partition(self, fact: PartitionChanged) -> None:
        topic = self.topics_by_id[fact.topic_id]
        old = topic.partitions[fact.partition]
        self._set_topic(replace(topic, partitions=topic.partitions.replaced(fact.partition, changed(old, fact))))

    def _change_broker(self, fact: BrokerChanged) -> None:
        old = self.brokers[fact.broker]
        fenced = old.fenced if fact.fenced is None else fact.fenced
        is_leaving = old.in_controlled_shutdown or fact.enters_controlled_shutdown
        self.brokers[fact.broker] = old._replace(fenced=fenced, in_controlled_shutdown=is_leaving)

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


def changed(old: PartitionImage, fact: PartitionChanged) -> PartitionImage:
    """A partition after a change."""
    has_new_epoch = fact.leader is not None
    return PartitionImage(
        old.index,
        old.replicas if fact.replicas is None else fact.replicas,
        old.isr if fact.isr is None else fact.isr,
        old.leader if fact.leader is None else fact.leader,
        LeaderEpoch(old.leader_epoch + has_new_epoch),
        old.partition_epoch + 1,
        old.removing if fact.removing is None else fact.removing,
        old.adding if fact.adding is None else fact.adding,
    )
