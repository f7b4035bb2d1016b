"""Values: what a voter is at one moment, and which role may follow which.

A role is immutable. A decision returns the complete next state, so nothing changes before what the decision wants
persisted is durable. Roles are told apart by their types: as tuples, two roles with the same content are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.raft.messages import FetchRequest, FetchSnapshotRequest, SnapshotId, Ticket, VoterKey


class Election(NamedTuple):
    """What must survive a crash, because other voters rely on it: a voter votes once in an epoch."""

    epoch: LeaderEpoch
    voted: VoterKey | None = None
    leader: BrokerId | None = None


NO_ELECTION = Election(LeaderEpoch(0))


# ── roles ────────────────────────────────────────────────────────────────────────────────────────


class Unattached(NamedTuple):
    """Follows no leader. At the deadline it stands for election, or looks for the leader if it must not stand."""

    deadline: Millis


class Prospective(NamedTuple):
    """Asks whether it would be elected (KIP-996), so a node that was cut off cannot depose a healthy leader."""

    deadline: Millis
    granted: frozenset[BrokerId]
    refused: frozenset[BrokerId] = frozenset()


class Candidate(NamedTuple):
    deadline: Millis
    granted: frozenset[BrokerId]
    refused: frozenset[BrokerId] = frozenset()


class Follower(NamedTuple):
    leader: BrokerId
    deadline: Millis
    """The fetch timer: without an answer from the leader until then, the follower stands for election."""

    asked: FetchRequest | FetchSnapshotRequest | None = None
    """The open request. Any other response is late and is dropped."""

    retry_at: Millis | None = None
    download: tuple[SnapshotId, int] | None = None
    """The snapshot being fetched, and how many of its bytes are stored."""

    leader_high_watermark: int = 0


class Progress(NamedTuple):
    """What the leader knows of one replica."""

    key: VoterKey
    end: int
    """The replica has everything of the leader's log below it, durably."""

    progressed_at: Millis
    """When a fetch last showed progress."""

    asked: FetchRequest | FetchSnapshotRequest
    was_sent: bool = False
    """The last response held something to store, so only a fetch for something else shows progress."""


class WaitingFetch(NamedTuple):
    ticket: Ticket
    request: FetchRequest
    until: Millis


class Leader(NamedTuple):
    epoch_start: int
    """The offset of its LeaderChange record. Nothing is committed by counting before that record is (Raft 5.4.2)."""

    elected_at: Millis
    begin_at: Millis
    """When to tell the voters that do not fetch again who leads."""

    progress: Mapping[VoterKey, Progress]
    """Of voters and observers; the leader itself is not in it."""

    waiting: tuple[WaitingFetch, ...] = ()


class Resigned(NamedTuple):
    """It led this epoch and does not any more. At the deadline it may stand for a later one."""

    deadline: Millis


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned

SAME_EPOCH: Mapping[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset({Prospective, Follower}),
    Prospective: frozenset({Unattached, Follower}),
    Candidate: frozenset({Unattached, Prospective, Follower, Leader}),
    Follower: frozenset({Unattached, Prospective}),
    Leader: frozenset({Resigned}),
    Resigned: frozenset({Prospective, Unattached}),
}
"""The roles that may follow a role within one epoch."""

NEW_EPOCH: frozenset[type[Role]] = frozenset({Unattached, Candidate, Follower, Leader})
"""The roles in which a voter enters an epoch; as a leader only if it is the only voter."""


class QuorumState(NamedTuple):
    election: Election
    role: Role
    high_watermark: int = 0
    alarm: str | None = None
    """Why the voter has stopped. It takes no further part, and an operator has to decide."""


def may_follow(before: QuorumState, after: QuorumState) -> bool:
    if after.election.epoch != before.election.epoch:
        return after.election.epoch > before.election.epoch and type(after.role) in NEW_EPOCH
    return type(after.role) is type(before.role) or type(after.role) in SAME_EPOCH[type(before.role)]
