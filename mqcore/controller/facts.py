"""Machine vocabulary: the facts that change the cluster. Each is one record of `__cluster_metadata`.

They are named tuples, because every start of a broker makes these classes, and a dataclass takes much longer.
The last three are not kept: they shape the memory of the active controller and end with it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset

NO_LEADER = BrokerId(-1)


class ResourceType(IntEnum):
    """The kinds of resources that have settings, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class SecurityProtocol(IntEnum):
    """How clients of a listener connect, with the protocol's numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class BrokerRegistered(NamedTuple):
    """A broker has started. `broker_epoch` fences what an earlier life of the broker still sends.

    `incarnation` is new with each start. `directories` are the identities of its data folders. A fenced broker leads no
    partition; one in controlled shutdown gets no new one.
    """

    broker: BrokerId
    incarnation: UUID
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    directories: tuple[UUID, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions and may join their in-sync replicas."""
        return not self.fenced and not self.in_controlled_shutdown


class BrokerChanged(NamedTuple):
    """None leaves a field as it is. A controlled shutdown ends only with a new registration."""

    broker: BrokerId
    broker_epoch: int
    fenced: bool | None = None
    enters_controlled_shutdown: bool = False


class BrokerUnregistered(NamedTuple):
    broker: BrokerId
    broker_epoch: int


class TopicCreated(NamedTuple):
    name: str
    topic_id: UUID


class PartitionCreated(NamedTuple):
    """`removing` and `adding` are the replicas that a reassignment removes and adds."""

    topic_id: UUID
    partition: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    removing: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()


class PartitionChanged(NamedTuple):
    """None leaves a field as it is. The partition epoch grows with each change.

    The leader epoch grows only with a change that names a leader, even if the same broker leads again.
    """

    topic_id: UUID
    partition: int
    leader: BrokerId | None = None
    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None


class TopicRemoved(NamedTuple):
    topic_id: UUID


class ConfigChanged(NamedTuple):
    """`value` None stands for a return to the default."""

    resource_type: ResourceType
    resource: str
    name: str
    value: str | None


class ProducerIdsReserved(NamedTuple):
    """All ids below `next_producer_id` may be in use. A snapshot names no broker."""

    broker: BrokerId
    broker_epoch: int
    next_producer_id: int


class FeatureLevelSet(NamedTuple):
    """The version of a feature that the whole cluster uses; 0 stands for none."""

    feature: str
    level: int


class NoOp(NamedTuple):
    """Changes nothing. A controller appends it to see whether it can still commit."""


MetadataFact = (
    BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | TopicCreated
    | PartitionCreated
    | PartitionChanged
    | TopicRemoved
    | ConfigChanged
    | ProducerIdsReserved
    | FeatureLevelSet
    | NoOp
)


class ControllerActivated(NamedTuple):
    """Not kept. `next_offset`: where the next record of the metadata log goes."""

    epoch: int
    next_offset: Offset
    at_ms: Millis


class BrokerContacted(NamedTuple):
    """Not kept. The session of the broker ends at `until_ms`, unless it is contacted again before."""

    broker: BrokerId
    until_ms: Millis
    applied: Offset


class LeadersBalanced(NamedTuple):
    """Not kept. The next check for leaders that are not the preferred ones is due at `next_ms`."""

    next_ms: Millis


class LogEndMoved(NamedTuple):
    """Not kept. The quorum has appended records of its own, so the next kept fact goes to `next_offset`."""

    next_offset: Offset


SessionFact = ControllerActivated | BrokerContacted | LeadersBalanced | LogEndMoved
ControllerFact = MetadataFact | SessionFact
