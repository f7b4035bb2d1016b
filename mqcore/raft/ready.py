"""Values: what goes into a voter's decision and what comes out of it.

The shell carries a `Ready` out in this order: persist, log, apply, send. It appends and cuts the log itself and reports
the change as `LogMoved`; a sync that ends and a stored part of a snapshot are such changes, too. If the disk is full or
fetched bytes turn out to be damaged, it drops the whole `Ready`, which then has not happened, and reports the request
that was answered as `Unanswered`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mqcore.identity import BrokerId
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import Request, Response, SnapshotId, Ticket, VoterKey, VoterSet
from mqcore.raft.state import Election, QuorumState


class QuorumRules(NamedTuple):
    node_ids: frozenset[BrokerId]
    """The nodes that may become voters: controller.quorum.voters."""

    fetch_timeout_ms: int = 2_000
    election_timeout_ms: int = 1_000
    fetch_wait_ms: int = 500
    retry_ms: int = 50
    lost_request_grace_ms: int = 300
    """A follower waits this long, or up to twice as long, for its leader after a fetch has failed."""


class LogView(Protocol):
    """What a decision reads of the metadata log."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def durable(self) -> int:
        """Everything below it has been synced."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that the log continues; −1 if it has neither."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None: ...

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, committed or not; empty in a folder that has joined no quorum."""
        ...

    @property
    def voters_offset(self) -> int:
        """The offset of the record that holds this voter set."""
        ...

    @property
    def suspect_to(self) -> int:
        """Recovery had to cut valid batches and may have lost acknowledged ones below this offset. Otherwise 0."""
        ...

    def end_of(self, epoch: int) -> EpochEnd: ...


# ── events ───────────────────────────────────────────────────────────────────────────────────────


class Received(NamedTuple):
    """A request of another node. Its answer is given under the ticket, with this decision or a later one."""

    ticket: Ticket
    request: Request


class Answered(NamedTuple):
    node: BrokerId
    request: Request
    response: Response


class Unanswered(NamedTuple):
    """The request's connection closed, or its deadline passed. It may or may not have arrived."""

    node: BrokerId
    request: Request


class LogMoved(NamedTuple):
    """Records were appended, cut, installed from a snapshot, or have become durable."""


class Adopt(NamedTuple):
    """The operator lets a node back in with a new directory id."""

    ticket: Ticket
    key: VoterKey


class Resign(NamedTuple):
    """The process stops, or cannot write its log any more."""


class Tick(NamedTuple):
    """A deadline has passed."""


Event = Received | Answered | Unanswered | LogMoved | Adopt | Resign | Tick


# ── decisions ────────────────────────────────────────────────────────────────────────────────────


class AppendLeaderChange(NamedTuple):
    granted: tuple[VoterKey, ...]


class AppendVoters(NamedTuple):
    voters: VoterSet


class AppendFetched(NamedTuple):
    """Batches as the leader has them, with their offsets and epochs."""

    records: bytes


class Truncate(NamedTuple):
    end: int


class StoreSnapshotPart(NamedTuple):
    """Write `data` at `position`. The last part also installs the snapshot: the log then continues it."""

    snapshot: SnapshotId
    position: int
    data: bytes
    is_last: bool


LogChange = AppendLeaderChange | AppendVoters | AppendFetched | Truncate | StoreSnapshotPart


class Send(NamedTuple):
    node: BrokerId
    request: Request


class Answer(NamedTuple):
    ticket: Ticket
    response: Response


class Ready(NamedTuple):
    state: QuorumState
    persist: Election | None = None
    log: LogChange | None = None
    sends: tuple[Send, ...] = ()
    answers: tuple[Answer, ...] = ()
