"""What must hold after every event, judged by what the nodes stored and sent, not by what they believe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.raft.messages import VoteRequest, VoterKey, majority
from mqcore.raft.state import Leader
from mqcore.wire.batches import BatchHeader

if TYPE_CHECKING:
    from tests.simulation.raft.node import Node


class Broken(AssertionError):
    """An invariant of the quorum does not hold."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Broken(message)


class Invariants:
    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}  # epoch → node
        self.votes: dict[tuple[VoterKey, int], VoterKey] = {}
        self.epochs: dict[VoterKey, int] = {}
        self.watermarks: dict[tuple[int, int], int] = {}  # (node, life) → watermark
        self.batches: dict[tuple[int, int], tuple[int, int, int]] = {}  # (base, epoch) → (crc, next, epoch before)
        self.committed: dict[int, tuple[int, int, int]] = {}  # base → (epoch, crc, next)
        self.committed_in: dict[int, int] = {}  # base → the epoch whose leader committed it
        self.committed_end = 0
        self.images: dict[int, str] = {}
        self.values: dict[int, bytes] = {}  # what was applied, by offset; `images` shows that all nodes agree on it
        self.lost_disks: dict[VoterKey, int] = {}  # by the directory that is lost: what was durable in it
        self.acknowledged: list[tuple[int, bytes]] = []
        self.are_alarms_expected = False

    def check_acknowledged(self) -> None:
        """Judged as the clients would: each value that was acknowledged is in the log, once."""
        written = set(self.values.values())
        require(len(written) == len(self.values), "a value is written twice")
        for end, value in self.acknowledged:
            require(value in written, f"{value!r}, acknowledged below {end}, is lost")

    def on_vote(self, voter: VoterKey, request: VoteRequest) -> None:
        """A vote leaves: an answer that grants one, or a request of a candidate, which has voted for itself."""
        if not request.pre_vote:
            first = self.votes.setdefault((voter, request.epoch), request.candidate)
            require(first == request.candidate, f"node {voter.id} votes twice in epoch {request.epoch}")

    def on_append(self, node: Node, before: int) -> None:
        """Log matching: an offset and an epoch name one batch, and the batch before it."""
        log = node.log
        assert log is not None
        previous = log.epoch_at(before - 1)
        for header in _headers(node, before):
            known = (header.crc, header.next_offset, previous)
            first = self.batches.setdefault((header.base_offset, header.leader_epoch), known)
            require(first == known, f"node {node.id} has another batch at {header.base_offset}")
            previous = header.leader_epoch  # type: ignore[assignment]

    def on_applied(self, node: Node) -> None:
        digest = self.images.setdefault(node.image.end, node.image.digest)
        require(digest == node.image.digest, f"node {node.id} has another image at {node.image.end}")
        require(node.image.end <= self.committed_end, f"node {node.id} applies records that are not committed")

    def after_start(self, node: Node) -> None:
        assert node.voter is not None and node.log is not None
        self._check_epoch(node)
        if node.image.end:
            known = self.images.get(node.image.end, node.image.digest)
            require(known == node.image.digest, f"node {node.id} starts from another image at {node.image.end}")

    def after_event(self, node: Node) -> None:
        assert node.voter is not None and node.log is not None
        state, log = node.voter.state, node.log
        self._check_epoch(node)
        require(state.alarm is None or self.are_alarms_expected, f"node {node.id} stops: {state.alarm}")
        start = 0 if log.snapshot is None else log.snapshot.end
        require(log.start == start, f"the log of node {node.id} begins at {log.start}, its snapshot ends at {start}")
        watermark = self.watermarks.get((node.id, node.life), 0)
        require(state.high_watermark >= watermark, f"the watermark of node {node.id} falls")
        self.watermarks[node.id, node.life] = state.high_watermark
        if isinstance(state.role, Leader):
            first = self.leaders.get(state.election.epoch)
            require(first in (None, node.id), f"nodes {first} and {node.id} lead epoch {state.election.epoch}")
            if first is None:
                self.leaders[state.election.epoch] = node.id
                self._check_completeness(node)
            undurable = sum(1 for _ in _headers(node, log.durable)) if log.durable < log.end else 0
            require(undurable <= 1, f"leader {node.id} has {undurable} batches that are not durable")
        if state.high_watermark > watermark:
            self._check_committed(node, watermark)

    def _check_epoch(self, node: Node) -> None:
        assert node.voter is not None
        require(node.voter.epoch >= self.epochs.get(node.key, 0), f"the epoch of node {node.id} falls")
        self.epochs[node.key] = node.voter.epoch

    def _check_completeness(self, node: Node) -> None:
        """A new leader has everything that leaders of earlier epochs have committed. (The votes of a paused candidate
        may arrive after a later leader has committed more.)"""
        assert node.log is not None and node.voter is not None
        held = {header.base_offset: _identity(header) for header in _headers(node, node.log.start)}
        for base, batch in self.committed.items():
            is_earlier = self.committed_in[base] < node.voter.epoch
            is_held = base < node.log.start or held.get(base) == batch
            require(is_held or not is_earlier, f"leader {node.id} lacks the committed batch at {base}")

    def _check_committed(self, node: Node, before: int) -> None:
        """What one node calls committed is on a majority's disks, and every node calls the same committed."""
        assert node.voter is not None and node.log is not None
        end = node.voter.high_watermark
        for header in _headers(node, max(before, node.log.start)):
            if header.next_offset > end:
                break
            first = self.committed.setdefault(header.base_offset, _identity(header))
            self.committed_in.setdefault(header.base_offset, node.voter.epoch)
            require(first == _identity(header), f"node {node.id} commits another batch at {header.base_offset}")
        if end > self.committed_end:
            voters = node.log.voters
            holders = [key.id for key in voters.values() if self._had_durably(node, key, end)]
            require(len(holders) >= majority(voters), f"node {node.id} commits {end}, which only {holders} had durably")
            self.committed_end = end

    def _had_durably(self, node: Node, key: VoterKey, end: int) -> bool:
        """A voter may have acknowledged a record before its disk was lost or damaged. It must not vote then, so the
        acknowledgement still counts."""
        assert node.log is not None
        other = node.world.nodes[key.id]
        if other.key != key or other.log is None:
            return self.lost_disks.get(key, 0) >= end
        if other.log.suspect_to >= end:
            return True
        is_same = other.log.start >= end or other.log.epoch_at(end - 1) == node.log.epoch_at(end - 1)
        return other.log.durable >= end and is_same


def _headers(node: Node, offset: int) -> list[BatchHeader]:
    assert node.log is not None
    return list(node.log.headers(offset))


def _identity(header: BatchHeader) -> tuple[int, int, int]:
    return header.leader_epoch, header.crc, header.next_offset
