"""Values: the requests and responses of the quorum, with the fields of Kafka's schemas that it uses.

Own rule: every request names its sender's epoch, and every response the responder's epoch and leader, so any exchange
tells the side that is behind about a newer epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, NewType
from uuid import UUID

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.log.epochs import EpochEnd
from mqcore.wire.errors import ErrorCode

Ticket = NewType("Ticket", int)
"""Identifies one received request until it is answered."""


class VoterKey(NamedTuple):
    """A node together with its data folder. A node that comes back with an empty folder has a new directory id, so it
    cannot use a vote that its lost folder has already given."""

    id: BrokerId
    directory: UUID


VoterSet = Mapping[BrokerId, VoterKey]


def voter_set(keys: Iterable[VoterKey]) -> VoterSet:
    return {key.id: key for key in sorted(keys)}


def majority(voters: VoterSet) -> int:
    return len(voters) // 2 + 1


class SnapshotId(NamedTuple):
    """The snapshot holds everything below `end`; the record before `end` was written in `epoch`."""

    end: int
    epoch: LeaderEpoch


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class VoteRequest(NamedTuple):
    """Asks for a vote in `epoch`. With `pre_vote` it asks only whether the voter would give one: nothing changes."""

    epoch: LeaderEpoch
    candidate: VoterKey
    voter: VoterKey
    last_epoch: LeaderEpoch
    end: int
    pre_vote: bool


class BeginQuorumEpochRequest(NamedTuple):
    """The new leader tells a voter whom to fetch from."""

    epoch: LeaderEpoch
    leader: BrokerId
    voter: VoterKey


class EndQuorumEpochRequest(NamedTuple):
    """The leader resigns. `successors` are the other voters, the most advanced one first."""

    epoch: LeaderEpoch
    leader: BrokerId
    successors: tuple[BrokerId, ...]


class FetchRequest(NamedTuple):
    """A voter asks only for what follows its durable end, so `offset` is also its acknowledgement."""

    epoch: LeaderEpoch
    replica: VoterKey
    offset: int
    last_epoch: LeaderEpoch
    high_watermark: int
    """What the replica knows, so the leader answers at once when it knows more (KIP-1166)."""


class FetchSnapshotRequest(NamedTuple):
    epoch: LeaderEpoch
    replica: VoterKey
    snapshot: SnapshotId
    position: int


Request = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest


# ── responses ────────────────────────────────────────────────────────────────────────────────────


class VoteResponse(NamedTuple):
    error: ErrorCode
    epoch: LeaderEpoch
    leader: BrokerId | None
    granted: bool = False


class EpochResponse(NamedTuple):
    """Answers BeginQuorumEpoch and EndQuorumEpoch, and any request that is refused by its epoch."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader: BrokerId | None


class FetchResponse(NamedTuple):
    """At most one of `diverging`, `snapshot` and `records` is set. `records_from` tells the leader's shell which
    records to read into `records`; it is not sent."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader: BrokerId | None
    high_watermark: int = 0
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    records_from: int | None = None
    records: bytes = b""


class FetchSnapshotResponse(NamedTuple):
    """The leader's shell reads `data` and `size` from the snapshot's file."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader: BrokerId | None
    snapshot: SnapshotId | None = None
    position: int = 0
    size: int = 0
    data: bytes = b""


Response = VoteResponse | EpochResponse | FetchResponse | FetchSnapshotResponse
