"""Machine vocabulary: the commands of a group and their answers.

Each command names the type of its answer (`answer_type`). A caller gets an answer of that type, or a bare `ErrorCode`
if the command did not reach the group: another broker coordinates it, it is still loading, or its journal failed.

Commands and answers are named tuples, because a broker makes all these classes when it starts, and a frozen dataclass
takes five times as long. Those without fields are dataclasses: an empty tuple is false, and equal to every other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from mqcore.groups.facts import CommittedOffset, Member, Protocols
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode

A = TypeVar("A", covariant=True)

NO_GENERATION = -1


class Phase(Enum):
    """The phases of a group, by the names of their states in Kafka."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Answers. Heartbeat, DeleteGroup and the broker's own commands are answered with an ErrorCode.


class JoinAnswer(NamedTuple):
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()  # for the leader: id, instance id, subscription


class SyncAnswer(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeaveAnswer(NamedTuple):
    """One error for each member of the command, in its order."""

    errors: tuple[ErrorCode, ...]


class CommitAnswer(NamedTuple):
    """One error for each offset of the command, in its order."""

    errors: tuple[ErrorCode, ...]


class FetchAnswer(NamedTuple):
    offsets: Mapping[tuple[str, int], CommittedOffset]


class DeleteOffsetsAnswer(NamedTuple):
    error: ErrorCode
    subscribed_topics: frozenset[str] = frozenset()  # their offsets stay (GROUP_SUBSCRIBED_TO_TOPIC)


class Description(NamedTuple):
    """`phase` is Dead for a group that does not exist."""

    phase: Phase
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()


# Commands


class CommandWithAnswer(Protocol[A]):
    """What all commands share: they are answered with an `A`."""

    def answer_type(self) -> type[A]: ...


class Join(NamedTuple):
    member_id: str
    fresh_member_id: str  # for a client without an id; made by the caller, because a machine makes no random ids
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_issued_id: bool = False  # JoinGroup 4+: a client without an id is issued one and has to join again with it
    can_skip_assignment: bool = False  # JoinGroup 9+

    def answer_type(self) -> type[JoinAnswer]:
        return JoinAnswer


class Sync(NamedTuple):
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()

    def answer_type(self) -> type[SyncAnswer]:
        return SyncAnswer


class Heartbeat(NamedTuple):
    member_id: str
    generation: int
    instance_id: str | None = None

    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


class Leave(NamedTuple):
    members: tuple[tuple[str, str | None], ...]  # member id, instance id

    def answer_type(self) -> type[LeaveAnswer]:
        return LeaveAnswer


class AbandonJoin(NamedTuple):
    """The connection of a client that waits in JoinGroup was closed."""

    member_id: str

    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str


class CommitOffsets(NamedTuple):
    member_id: str
    generation: int
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None

    def answer_type(self) -> type[CommitAnswer]:
        return CommitAnswer


class FetchOffsets(NamedTuple):
    """`wanted` None stands for all offsets of the group."""

    wanted: tuple[tuple[str, int], ...] | None = None

    def answer_type(self) -> type[FetchAnswer]:
        return FetchAnswer


class DeleteOffsets(NamedTuple):
    partitions: tuple[tuple[str, int], ...]

    def answer_type(self) -> type[DeleteOffsetsAnswer]:
        return DeleteOffsetsAnswer


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


@dataclass(frozen=True, slots=True)
class Describe:
    def answer_type(self) -> type[Description]:
        return Description


class ForgetTopic(NamedTuple):
    """A topic was deleted. A new topic of the same name must not get its offsets."""

    topic: str

    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Remove offsets that are older than their retention, by the wall clock."""

    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


@dataclass(frozen=True, slots=True)
class ResumeSessions:
    """The group was loaded, so the sessions of its members start again."""

    def answer_type(self) -> type[ErrorCode]:
        return ErrorCode


GroupCommand = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | AbandonJoin
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroup
    | Describe
    | ForgetTopic
    | ExpireOffsets
    | ResumeSessions
)

GroupAnswer = (
    JoinAnswer | SyncAnswer | LeaveAnswer | CommitAnswer | FetchAnswer | DeleteOffsetsAnswer | Description | ErrorCode
)
