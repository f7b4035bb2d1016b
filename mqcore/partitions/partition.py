"""Shell over a store: what requests do with a replica: append, copy, read and delete records.

A leader's append validates the batch, assigns offsets, writes the log, moves the high watermark and wakes the requests
that wait. A follower carries out what `FollowerState` decides. Without a role only the log is kept.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from uuid import UUID

from mqcore.identity import Millis, Offset, TopicPartition
from mqcore.log.errors import LogFault
from mqcore.log.log import Log
from mqcore.partitions import follower_steps, reading
from mqcore.partitions.appender import Appended
from mqcore.partitions.follower import Step
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.producers import Producers
from mqcore.partitions.replica import NOT_LEADER, Replica
from mqcore.partitions.terms import Proposal
from mqcore.wire import batches
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record, build_batch


class Partition(Replica):
    """`propose` sends a proposal for the ISR to the controller. `before_cut` removes checkpoints above the offset at
    which the log is about to be cut."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: UUID,
        log: Log,
        producers: Producers,
        request_sync: Callable[[Partition], None],
        *,
        high_watermark: int = 0,
        propose: Callable[[Partition, Proposal], None] = lambda partition, proposal: None,
        before_cut: Callable[[int], None] = lambda end: None,
    ) -> None:
        super().__init__(name, topic_id, log, producers, high_watermark)
        self.before_cut = before_cut
        self._request_sync = request_sync
        self._propose = propose

    def request_sync(self) -> None:
        self._request_sync(self)

    def propose(self, proposal: Proposal) -> None:
        self._propose(self, proposal)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def append(self, batch: memoryview, now_ms: int) -> Appended | Refusal:
        """Append one batch from a client. Its offsets and leader epoch are written into `batch` itself."""
        if self._refusal is not None:
            return self._refusal
        try:
            outcome = self.appender.append(batch, self.leader_epoch, now_ms)
        except LogFault as fault:
            return self.go_offline(str(fault))
        if isinstance(outcome, Appended) and not outcome.is_duplicate:
            self._on_appended()
        return outcome

    def append_records(self, records: Sequence[Record], limit_bytes: int = OWN_BATCH_BYTES_MAX) -> Offset:
        """Append records of the broker itself, assigning their offsets, and return the new end.

        Raises `OSError` if they cannot be written, and `BatchTooLarge` before writing if the batch would exceed
        `limit_bytes`. The default limit is what readers accept: a larger batch could never be loaded again."""
        if self._refusal is not None:
            raise OSError(errno.EIO, self.offline_reason or self._refusal.message)
        if not self.has_enough_replicas:
            raise OSError(errno.EAGAIN, "too few replicas are in sync")
        placed = [record._replace(offset=index) for index, record in enumerate(records)]
        batch = memoryview(build_batch(placed, limit_bytes=limit_bytes))
        header = batches.read_header(batch)
        try:
            outcome = self.appender.append_valid(batch, header, self.leader_epoch, placed[-1].timestamp)
        except LogFault as fault:
            raise OSError(errno.EIO, self.go_offline(str(fault)).message) from fault
        if isinstance(outcome, Refusal):
            raise OSError(errno.ENOSPC, outcome.message)
        self._on_appended()
        return outcome.end

    def _on_appended(self) -> None:
        log = self.log
        if not self.is_only_replica:
            self.append_watchers.notify()
            self.inform_leader(LeaderState.log_moved)
        elif not self._durable_only:
            self._advance_alone(log.end_offset)
        if log.end_offset - log.flushed_offset >= self._flush_messages or log.segments.should_sync_soon:
            self.request_sync()

    def carry_out(self, step: Step, now_ms: Millis) -> None:
        """Do what the follower has decided. If the disk is full, `OSError` is raised and nothing has changed."""
        try:
            follower_steps.carry_out(self, step, now_ms)
        except LogFault as fault:
            self.go_offline(str(fault))
            return
        self._on_appended()

    # ── reading and deleting ─────────────────────────────────────────────────────────────────────

    read = reading.read
    """For consumers."""

    def read_refusal(self) -> Refusal:
        """Why consumers cannot read here."""
        return self._refusal or NOT_LEADER

    def delete_records(self, offset: int) -> Offset | Refusal:
        """Delete the records below `offset` (−1 means the high watermark) and return the new log start."""
        if self._refusal is not None:
            return self._refusal
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        self.append_watchers.notify()  # followers learn the new start with their next answer
        self._advance()
        return self.log_start_offset
