"""Machine vocabulary: what a group can be asked, and what it answers.

Each command names the type of its answer (`Asks[...]`), so that a caller gets what it asked for or a bare `ErrorCode`
when no group could be asked (no coordinator here, still loading, the journal failed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from mqcore.groups.facts import CommittedOffset, Member, Protocols
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode

A = TypeVar("A")

NO_GENERATION = -1


class Phase(Enum):
    """The states of a group, by the names that Kafka shows to clients."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Answers (those of Heartbeat, Delete and the house-keeping commands are an ErrorCode)


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()  # for the leader: id, instance id, subscription


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """One error per member that was to leave, in the order of the command."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """One error per offset, in the order of the command."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    offsets: Mapping[tuple[str, int], CommittedOffset]


@dataclass(frozen=True, slots=True)
class DeleteOffsetsAnswer:
    error: ErrorCode
    subscribed_topics: frozenset[str] = frozenset()  # their offsets stay: GROUP_SUBSCRIBED_TO_TOPIC


@dataclass(frozen=True, slots=True)
class Description:
    """`phase` is Dead for a group that is not there."""

    phase: Phase
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()


# Commands


class Asks(Generic[A]):
    """The base of commands that are answered with an `A`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Join(Asks[JoinAnswer]):
    member_id: str
    fresh_member_id: str  # to give to a client that has none; chance belongs to the shell
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    id_required: bool = False  # JoinGroup 4+: come back with the id you were given
    can_skip_assignment: bool = False  # JoinGroup 9+


@dataclass(frozen=True, slots=True)
class Sync(Asks[SyncAnswer]):
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat(Asks[ErrorCode]):
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave(Asks[LeaveAnswer]):
    members: tuple[tuple[str, str | None], ...]  # member id, instance id


@dataclass(frozen=True, slots=True)
class Abandon(Asks[ErrorCode]):
    """The connection of a client that waits in JoinGroup has closed."""

    member_id: str


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitOffsets(Asks[CommitAnswer]):
    member_id: str
    generation: int
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FetchOffsets(Asks[FetchAnswer]):
    """`wanted` None: all there are."""

    wanted: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteOffsets(Asks[DeleteOffsetsAnswer]):
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup(Asks[ErrorCode]):
    pass


@dataclass(frozen=True, slots=True)
class Describe(Asks[Description]):
    pass


@dataclass(frozen=True, slots=True)
class ForgetTopic(Asks[ErrorCode]):
    """A topic was deleted; one of the same name will be another."""

    topic: str


@dataclass(frozen=True, slots=True)
class ExpireOffsets(Asks[ErrorCode]):
    """Look for offsets past their retention, by the wall clock."""


@dataclass(frozen=True, slots=True)
class Resume(Asks[ErrorCode]):
    """The group has been loaded: sessions start again."""


GroupCommand = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | Abandon
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroup
    | Describe
    | ForgetTopic
    | ExpireOffsets
    | Resume
)

GroupAnswer = (
    JoinAnswer | SyncAnswer | LeaveAnswer | CommitAnswer | FetchAnswer | DeleteOffsetsAnswer | Description | ErrorCode
)
