"""Machine: what a follower asks its leader for, and what it does with the answer (KIP-101, 279, 320, 595).

It is built when a term begins, and dropped when it ends. The caller carries out each step before it asks again:

    Append         check passed: write the batches in one call, then raise the high watermark
    Truncate       the leader's log differs from here on: cut, lower the high watermark to the new end, ask again
    StartAt        the leader no longer has what comes next: remove everything, continue at that offset
    Back           ask again after the deadline
    AwaitMetadata  this term is over; the metadata will say what comes next
    Ignore         the answer belongs to another request

Own rules:
* An answer counts only for the open request. A late one describes a log that has changed since.
* A log is cut where the leader's and the own epochs part, never at a high watermark, which may be out of date.
* The offset of a request promises that everything below it is kept. With `flush.messages=1` it waits for the sync.
* When a term begins, the caller forgets an epoch of its own in which nothing was written: `epochs.truncate_end(end)`.
"""

from __future__ import annotations

from typing import NamedTuple

from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.partitions.log_view import LogView, acknowledged_end
from mqcore.partitions.reads import ReplicaFetch
from mqcore.wire.batches import BadBatch, BatchHeader, Buffer, check_crc, read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition

BACKOFF_MS = 100


class Append(NamedTuple):
    """Batches that continue the log; none if only offsets have changed."""

    records: Buffer
    headers: tuple[BatchHeader, ...]
    high_watermark: Offset  # of the leader, but not above the end after this append
    log_start: Offset
    restart_at: Offset | None = None
    """Remove everything and begin here, because the first batch begins below the leader's log start."""


class Truncate(NamedTuple):
    end: Offset


class StartAt(NamedTuple):
    log_start: Offset


class Back(NamedTuple):
    reason: str


class AwaitMetadata(NamedTuple):
    pass


class Ignore(NamedTuple):
    pass


Step = Append | Truncate | StartAt | Back | AwaitMetadata | Ignore


class FollowerState:
    def __init__(
        self, me: BrokerId, broker_epoch: int, leader: BrokerId, leader_epoch: LeaderEpoch, *, durable_only: bool
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.durable_only = durable_only
        self._me = me
        self._broker_epoch = broker_epoch
        self._open: ReplicaFetch | None = None
        self._ask_at = Millis(0)
        self._is_over = False

    def is_of(self, leader: BrokerId, leader_epoch: LeaderEpoch, broker_epoch: int) -> bool:
        """Whether this is the state of that term, and of this registration of the own broker."""
        return (self.leader, self.leader_epoch, self._broker_epoch) == (leader, leader_epoch, broker_epoch)

    def ask(self, log: LogView, now: Millis) -> ReplicaFetch | None:
        """The next request. None while one is open, a sync is due, a pause lasts or the term is over."""
        if self._open is not None or self._is_over or now < self._ask_at:
            return None
        if acknowledged_end(log, durable_only=self.durable_only) < log.end_offset:
            return None
        self._open = ReplicaFetch(
            self._me,
            self._broker_epoch,
            self.leader_epoch,
            Offset(log.end_offset),
            log.epochs.last_epoch,
            Offset(log.start_offset),
        )
        return self._open

    def deadline(self) -> Millis | None:
        """When `ask` may return a request again, unless something else happens first."""
        return None if self._open is not None or self._is_over else self._ask_at

    def pause(self, now: Millis) -> None:
        """The last step could not be carried out, for example because the disk is full."""
        self._back(now, "the step failed")

    def failed(self, asked: ReplicaFetch, now: Millis) -> None:
        """No answer will come, because the connection is gone or the deadline has passed."""
        if self._takes(asked):
            self._back(now, "no answer")

    def decide(self, asked: ReplicaFetch, answer: FetchedPartition, log: LogView, now: Millis) -> Step:
        if not self._takes(asked):
            return Ignore()
        if answer.error_code:
            return self._on_error(ErrorCode(answer.error_code), answer, log, now)
        if answer.diverging_epoch is not None:
            return self._on_divergence(*answer.diverging_epoch, log, now)
        return self._on_records(answer, log, now)

    def learn(self, answer: FetchedPartition, log: LogView, now: Millis) -> Step:
        """The leader has told its offsets, and the request stays open."""
        return self._on_records(answer, log, now)

    def _takes(self, asked: ReplicaFetch) -> bool:
        if asked is not self._open:
            return False
        self._open = None
        return True

    def _back(self, now: Millis, reason: str) -> Back:
        self._ask_at = Millis(now + BACKOFF_MS)
        return Back(reason)

    def _on_error(self, error: ErrorCode, answer: FetchedPartition, log: LogView, now: Millis) -> Step:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self._is_over = True
            return AwaitMetadata()
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            has_records = log.epochs.last_epoch >= 0
            if answer.log_start_offset > log.end_offset or (not has_records and answer.log_start_offset >= 0):
                return StartAt(Offset(answer.log_start_offset))
        return self._back(now, error.name)

    def _on_divergence(self, epoch: int, end: int, log: LogView, now: Millis) -> Step:
        """The leader's `epoch` ends at `end`. The own log may have ended it earlier (KIP-279)."""
        if epoch < 0:
            return self._back(now, "the leader does not know its own epoch")
        cut_at = self._cut_at(epoch, end, log)
        if cut_at >= log.end_offset:
            return self._back(now, f"the leader's epoch {epoch} ends at {end}, which contradicts nothing here")
        return Truncate(Offset(cut_at))

    def _cut_at(self, epoch: int, end: int, log: LogView) -> int:
        own_end = log.epochs.end_offset_for(epoch).end_offset
        return max(min(own_end, end), log.start_offset)

    def _on_records(self, answer: FetchedPartition, log: LogView, now: Millis) -> Step:
        records, log_start = answer.records, max(answer.log_start_offset, 0)
        assert isinstance(records, bytes | bytearray | memoryview)
        try:
            found = list(read_headers(records))
            for position, header in found:
                check_crc(records, header, position)
        except BadBatch as bad:
            return self._back(now, f"the leader sent a bad batch: {bad}")
        headers = tuple(header for _, header in found)
        end = log.end_offset
        restart_at = None
        for header in headers:
            if header.base_offset < end:
                is_inside = header is headers[0] and log.start_offset == end < header.next_offset
                if not is_inside:
                    return self._back(now, f"the leader sent offset {header.base_offset}, the log ends at {end}")
                restart_at = Offset(header.base_offset)
            end = header.next_offset
        complete = records[: sum(header.size for header in headers)]
        high_watermark, log_start = Offset(min(answer.high_watermark, end)), Offset(min(log_start, end))
        return Append(complete, headers, high_watermark, log_start, restart_at)
