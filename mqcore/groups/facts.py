"""Machine vocabulary: what can have happened to a group.

Only the last five facts are kept in `__consumer_offsets` (see `records`); the others shape the memory of the running
coordinator. Moments are monotonic and exist only in facts that are not kept; `*_wall_ms` is written down.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqcore.coordination.decision import Ticket
from mqcore.identity import NO_LEADER_EPOCH, LeaderEpoch, Millis, Offset

NEVER = Millis(0)

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors a member knows, best first, each with its subscription."""


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer. `protocols` are all it sent, or the chosen one alone if it came back from the journal."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    session_deadline: Millis | None = None  # None: just loaded, nobody has resumed its session yet
    joining: Ticket | None = None  # its JoinGroup waits for the others
    syncing: Ticket | None = None  # its SyncGroup waits for the leader
    new: bool = False  # has not been in a generation yet: the wait in JoinGroup is bounded for it

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def subscription(self, protocol: str | None) -> bytes:
        """What it sent along with `protocol`."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has read one partition, as it said itself."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_wall_ms: Millis = NEVER
    expire_wall_ms: Millis | None = None  # only old clients ask for one (OffsetCommit 2–4)


# Facts of the running coordinator


@dataclass(frozen=True, slots=True)
class MemberIdIssued:
    """A client without id got one and is expected to come back with it."""

    member_id: str
    deadline: Millis


@dataclass(frozen=True, slots=True)
class MemberIdWithdrawn:
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A member waits in JoinGroup: a new one, or a known one with what it says now."""

    member: Member
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A static member came back under a new id and takes over the place of the old one."""

    old_member_id: str
    member: Member


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    member_id: str


@dataclass(frozen=True, slots=True)
class SessionsRefreshed:
    member_ids: tuple[str, ...]
    at: Millis


@dataclass(frozen=True, slots=True)
class RebalanceBegan:
    """Members have until `deadline` to join. `extendable_until`: the group was empty; wait for more members."""

    deadline: Millis
    extendable_until: Millis | None = None


@dataclass(frozen=True, slots=True)
class RebalanceExtended:
    deadline: Millis


@dataclass(frozen=True, slots=True)
class GenerationBegan:
    """All have joined; the leader assigns. Who has not synced by `sync_deadline` is out."""

    generation: int
    protocol: str
    leader: str
    at: Millis
    sync_deadline: Millis


@dataclass(frozen=True, slots=True)
class MemberSynced:
    """A member asked for its assignment; without a ticket it got it at once."""

    member_id: str
    ticket: Ticket | None


# Facts that are kept


@dataclass(frozen=True, slots=True)
class SettledMember:
    """What of a member survives the coordinator."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GenerationSettled:
    """Everybody has an assignment."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[SettledMember, ...] = ()
    at_wall_ms: Millis = NEVER


@dataclass(frozen=True, slots=True)
class GroupEmptied:
    """The last member is gone; offsets begin to age."""

    generation: int
    protocol_type: str
    at_wall_ms: Millis


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    topic: str
    partition: int
    committed: CommittedOffset


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    pass


KeptFact = GenerationSettled | GroupEmptied | OffsetCommitted | OffsetRemoved | GroupRemoved

GroupFact = (
    MemberIdIssued
    | MemberIdWithdrawn
    | MemberJoined
    | MemberReplaced
    | MemberRemoved
    | SessionsRefreshed
    | RebalanceBegan
    | RebalanceExtended
    | GenerationBegan
    | MemberSynced
    | KeptFact
)
