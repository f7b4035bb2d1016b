"""Machine vocabulary: the commands of a group and their answers.

Each command names the type of its answer (`CommandWithAnswer[...]`). A caller gets an answer of that type, or a bare
`ErrorCode` if the command did not reach the group: another broker coordinates it, it is still loading, or its journal
failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar, get_args

from mqcore.groups.facts import CommittedOffset, Member, Protocols
from mqcore.identity import LeaderEpoch, Offset
from mqcore.wire.errors import ErrorCode

A = TypeVar("A")

NO_GENERATION = -1


class Phase(Enum):
    """The phases of a group, by the names of their states in Kafka."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Answers. Heartbeat, DeleteGroup and the broker's own commands are answered with an ErrorCode.


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
    """One error for each member of the command, in its order."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """One error for each offset of the command, in its order."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    offsets: Mapping[tuple[str, int], CommittedOffset]


@dataclass(frozen=True, slots=True)
class DeleteOffsetsAnswer:
    error: ErrorCode
    subscribed_topics: frozenset[str] = frozenset()  # their offsets stay (GROUP_SUBSCRIBED_TO_TOPIC)


@dataclass(frozen=True, slots=True)
class Description:
    """`phase` is Dead for a group that does not exist."""

    phase: Phase
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()


# Commands


class CommandWithAnswer(Generic[A]):
    """The base of commands that are answered with an `A`."""

    __slots__ = ()

    @classmethod
    def answer_type(cls) -> type[A]:
        """The type in the brackets of the base class."""
        (base,) = getattr(cls, "__orig_bases__")  # noqa: B009 (mypy does not know the attribute)
        (answer_type,) = get_args(base)
        assert isinstance(answer_type, type)
        return answer_type


@dataclass(frozen=True, slots=True)
class Join(CommandWithAnswer[JoinAnswer]):
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


@dataclass(frozen=True, slots=True)
class Sync(CommandWithAnswer[SyncAnswer]):
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat(CommandWithAnswer[ErrorCode]):
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave(CommandWithAnswer[LeaveAnswer]):
    members: tuple[tuple[str, str | None], ...]  # member id, instance id


@dataclass(frozen=True, slots=True)
class AbandonJoin(CommandWithAnswer[ErrorCode]):
    """The connection of a client that waits in JoinGroup was closed."""

    member_id: str


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitOffsets(CommandWithAnswer[CommitAnswer]):
    member_id: str
    generation: int
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FetchOffsets(CommandWithAnswer[FetchAnswer]):
    """`wanted` None stands for all offsets of the group."""

    wanted: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteOffsets(CommandWithAnswer[DeleteOffsetsAnswer]):
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup(CommandWithAnswer[ErrorCode]):
    pass


@dataclass(frozen=True, slots=True)
class Describe(CommandWithAnswer[Description]):
    pass


@dataclass(frozen=True, slots=True)
class ForgetTopic(CommandWithAnswer[ErrorCode]):
    """A topic was deleted. A new topic of the same name must not get its offsets."""

    topic: str


@dataclass(frozen=True, slots=True)
class ExpireOffsets(CommandWithAnswer[ErrorCode]):
    """Remove offsets that are older than their retention, by the wall clock."""


@dataclass(frozen=True, slots=True)
class ResumeSessions(CommandWithAnswer[ErrorCode]):
    """The group was loaded, so the sessions of its members start again."""


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
