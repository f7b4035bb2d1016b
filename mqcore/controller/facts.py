"""Machine vocabulary: the facts that change the cluster. Each is one record of `__cluster_metadata`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from mqcore.identity import BrokerId, LeaderEpoch


class ResourceType(IntEnum):
    """The kinds of resources that have settings, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    broker: BrokerId
    incarnation: UUID
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None


@dataclass(frozen=True, slots=True)
class TopicCreated:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    topic_id: UUID
    index: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """A partition has a new leader epoch, even if the same broker leads it again after a restart."""

    topic_id: UUID
    index: int
    leader: BrokerId
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """`value` None stands for a return to the default."""

    resource_type: ResourceType
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsReserved:
    """All ids below `next_producer_id` may be in use."""

    broker: BrokerId
    broker_epoch: int
    next_producer_id: int


MetadataFact = (
    BrokerRegistered
    | TopicCreated
    | PartitionCreated
    | LeaderChanged
    | TopicRemoved
    | ConfigChanged
    | ProducerIdsReserved
)
