"""Machine vocabulary: what one may ask of the controller, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from mqcore.controller.facts import Endpoint
from mqcore.identity import BrokerId
from mqcore.wire.errors import Refusal


@dataclass(frozen=True, slots=True)
class NewTopic:
    """−1 partitions or replicas: the broker's default. `assignment`: (partition, replicas), chosen by the client."""

    name: str
    topic_id: UUID
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTopics:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicMade:
    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Each by name or by id: exactly one of them."""

    topics: tuple[tuple[str | None, UUID | None], ...]


@dataclass(frozen=True, slots=True)
class TopicGone:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class MorePartitions:
    topic: str
    count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class Alteration(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """`alteration`: a number of `Alteration`, or one that is refused."""

    name: str
    alteration: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceEdits:
    """`resource_type`: a number of `ResourceType`, or one that is refused.
    `replace_all`: settings that are not named go back to their defaults (the old AlterConfigs)."""

    resource_type: int
    resource: str
    edits: tuple[ConfigEdit, ...]
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    resources: tuple[ResourceEdits, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ReserveProducerIds:
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker starts: it takes its address, and leads its partitions in a new epoch."""

    broker: BrokerId
    incarnation: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str | None


ControllerCommand = CreateTopics | DeleteTopics | CreatePartitions | AlterConfigs | ReserveProducerIds | RegisterBroker

ControllerAnswer = tuple[TopicMade | TopicGone | Refusal | None, ...] | ProducerIdBlock
"""One entry for each entry of the command, in its order (None: done, nothing to tell)."""
