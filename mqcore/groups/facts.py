"""Machine vocabulary: the facts that change a group.

Only the last five facts are kept in `__consumer_offsets` (see `records`). The others change only the memory of the
running coordinator. Their times are monotonic; times named `*_wall_ms` are wall time and are kept. Facts with fields
are named tuples, as commands are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mqcore.coordination.decision import Ticket
from mqcore.identity import NO_LEADER_EPOCH, LeaderEpoch, Millis, Offset

NEVER = Millis(0)

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member supports, in order of preference, each with the member's subscription."""


class Member(NamedTuple):
    """One consumer. `protocols` are all that it sent; a member loaded from the journal has only the chosen one."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    session_deadline: Millis | None = None  # None until a loaded member's session is resumed
    join_ticket: Ticket | None = None  # its JoinGroup waits for the other members
    sync_ticket: Ticket | None = None  # its SyncGroup waits for the leader's assignment
    is_new: bool = False  # has not been in a generation yet, so its wait in JoinGroup is bounded

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        return self.join_ticket is not None or self.sync_ticket is not None

    def subscription(self, protocol: str | None) -> bytes:
        """The subscription that the member sent with `protocol`."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class CommittedOffset(NamedTuple):
    """How far a group has read one partition, as committed by a consumer."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""
    commit_wall_ms: Millis = NEVER
    expire_wall_ms: Millis | None = None  # set only by old clients (OffsetCommit 2–4)


# Facts of the running coordinator


class MemberIdIssued(NamedTuple):
    """A client without a member id got one. It has to join with it before the deadline."""

    member_id: str
    deadline: Millis


class MemberIdWithdrawn(NamedTuple):
    member_id: str


class MemberJoined(NamedTuple):
    """A member waits in JoinGroup: a new one, or a known one with its latest protocols and timeouts."""

    member: Member
    protocol_type: str


class MemberReplaced(NamedTuple):
    """A static member has restarted. Its new id replaces the old one."""

    old_member_id: str
    member: Member


class MemberRemoved(NamedTuple):
    member_id: str


class SessionsRefreshed(NamedTuple):
    member_ids: tuple[str, ...]
    at: Millis


class RebalanceBegan(NamedTuple):
    """Members have until `deadline` to join. `extendable_until` is set for the first rebalance of an empty group."""

    deadline: Millis
    extendable_until: Millis | None = None


class RebalanceExtended(NamedTuple):
    deadline: Millis


class GenerationBegan(NamedTuple):
    """All members have joined, and the leader assigns. Members that do not sync by `sync_deadline` are removed."""

    generation: int
    protocol: str
    leader: str
    at: Millis
    sync_deadline: Millis


class MemberSynced(NamedTuple):
    """A member asked for its assignment. Without a ticket it was answered immediately."""

    member_id: str
    ticket: Ticket | None


# Facts that are kept


class StoredMember(NamedTuple):
    """What the journal keeps of a member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GenerationAssigned(NamedTuple):
    """Every member of the generation has its assignment."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[StoredMember, ...] = ()
    at_wall_ms: Millis = NEVER


class GroupEmptied(NamedTuple):
    """The last member has left. The offsets begin to age."""

    generation: int
    protocol_type: str
    at_wall_ms: Millis


class OffsetCommitted(NamedTuple):
    topic: str
    partition: int
    committed: CommittedOffset


class OffsetRemoved(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    pass


KeptFact = GenerationAssigned | GroupEmptied | OffsetCommitted | OffsetRemoved | GroupRemoved

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
