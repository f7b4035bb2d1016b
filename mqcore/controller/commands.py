"""Machine vocabulary: the commands of the controller and their answers; here those of clients and of the operator.

`cluster_commands` has those about brokers and replicas, and says why they are named tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from mqcore.controller.cluster_commands import ClusterAnswer, ClusterCommand
from mqcore.identity import BrokerId
from mqcore.wire.errors import Refusal


class NewTopic(NamedTuple):
    """−1 partitions or replicas stand for the broker's default. `assignment`: (partition, replicas) from the client."""

    name: str
    topic_id: UUID
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: Mapping[str, str | None] = MappingProxyType({})


class CreateTopics(NamedTuple):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    internal: bool = False


class CreatedTopic(NamedTuple):
    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


class DeleteTopics(NamedTuple):
    """Each topic by name or by id; the other one is None."""

    topics: tuple[tuple[str | None, UUID | None], ...]


class DeletedTopic(NamedTuple):
    name: str
    topic_id: UUID


class PartitionIncrease(NamedTuple):
    topic: str
    partitions: int  # of the topic afterwards
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


class CreatePartitions(NamedTuple):
    topics: tuple[PartitionIncrease, ...]
    validate_only: bool = False


class Alteration(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEdit(NamedTuple):
    """`alteration` is a number of `Alteration`, or an unknown number that will be rejected."""

    name: str
    alteration: int
    value: str | None


class ResourceEdits(NamedTuple):
    """`resource_type` is a number of `ResourceType`, or an unknown number that will be rejected.

    With `replace_all` all other settings go back to their defaults, as the old AlterConfigs demands.
    """

    resource_type: int
    resource: str
    edits: tuple[ConfigEdit, ...]
    replace_all: bool = False


class AlterConfigs(NamedTuple):
    resources: tuple[ResourceEdits, ...]
    validate_only: bool = False


class ReserveProducerIds(NamedTuple):
    """`broker_epoch` −1 stands for the present registration of a broker in the same process."""

    broker: BrokerId
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


ControllerCommand = CreateTopics | DeleteTopics | CreatePartitions | AlterConfigs | ReserveProducerIds | ClusterCommand

Outcomes = tuple[CreatedTopic | DeletedTopic | Refusal | None, ...]
"""One outcome for each entry of a command, in its order; None for a success without details."""

ControllerAnswer = Outcomes | ProducerIdBlock | ClusterAnswer | Refusal
"""A refusal concerns the command as a whole."""
