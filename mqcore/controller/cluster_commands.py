"""Machine vocabulary: the commands of brokers and of the operator about brokers and replicas, and their answers.

Commands are named tuples, because every start of a broker makes these classes, and a dataclass takes much longer. An
answer must not be a tuple: a tuple of outcomes is the answer to a client's command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from mqcore.controller.facts import Endpoint
from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.wire.errors import Refusal


class Activate(NamedTuple):
    """The first command of a new controller.

    `epoch`: of its leadership in the quorum. `next_offset`: where its first record will go. `features` and
    `min_insync_replicas` are the values for a cluster that has none yet.
    """

    epoch: int
    next_offset: Offset
    features: Mapping[str, int] = MappingProxyType({})
    min_insync_replicas: str | None = None


class RegisterBroker(NamedTuple):
    """A broker has started and announces its endpoints.

    `incarnation` is made by `new_incarnation`, `directories` are the identities of its data folders. `is_only_broker`
    means that this broker and the only controller are one process: no earlier life of the broker is alive, so it is
    ready at once, and leads its partitions in a new epoch.
    """

    broker: BrokerId
    incarnation: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    directories: tuple[UUID, ...] = ()
    is_only_broker: bool = False


def new_incarnation(starts: int, chance: UUID) -> UUID:
    """An incarnation that says how often the folder was started: a later life of a broker has the larger number."""
    return UUID(int=(starts << 64) | (chance.int & (1 << 64) - 1))


@dataclass(frozen=True, slots=True)
class Registered:
    broker_epoch: int


class Heartbeat(NamedTuple):
    """`applied`: everything below this offset of the metadata log is in effect on the broker."""

    broker: BrokerId
    broker_epoch: int
    applied: Offset
    wants_fence: bool = False
    wants_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class BrokerDisconnected(NamedTuple):
    """The connection of a broker broke, so its session ends soon, unless the broker comes back."""

    broker: BrokerId
    broker_epoch: int


class UnregisterBroker(NamedTuple):
    broker: BrokerId


class IsrProposal(NamedTuple):
    """In-sync replicas that the leader of a partition wants, each with the broker epoch that the leader knows.

    An epoch of −1 is not checked: leaders before KIP-903 know none.
    """

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]


class AlterPartition(NamedTuple):
    """`controller_epoch`: the controller that the leader means; −1 if it means whichever is active."""

    broker: BrokerId
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]
    controller_epoch: int = -1


class AlteredPartition(NamedTuple):
    """The partition after the proposal was applied."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class AlteredPartitions:
    """One outcome for each proposal, in its order."""

    outcomes: tuple[AlteredPartition | Refusal, ...]


class Election(Enum):
    """ONLINE keeps a leader that can stay. PREFERRED wants the first replica. UNCLEAN may lose records."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class ElectLeaders(NamedTuple):
    election: Election
    partitions: tuple[tuple[str, int], ...]


class Reassignment(NamedTuple):
    """`replicas` None cancels the reassignment in progress."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None


class Reassign(NamedTuple):
    partitions: tuple[Reassignment, ...]
    may_change_factor: bool = True


ClusterCommand = (
    Activate
    | RegisterBroker
    | Heartbeat
    | BrokerDisconnected
    | UnregisterBroker
    | AlterPartition
    | ElectLeaders
    | Reassign
)
ClusterAnswer = Registered | HeartbeatAnswer | AlteredPartitions
