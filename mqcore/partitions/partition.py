"""Shell over a store: the leader's copy of one partition.

An append validates the batch, assigns offsets, writes the log, advances the high watermark and wakes waiting requests.
This broker holds the only replica, so the high watermark is the end of its own log. Topics with `flush.messages=1` use
the end of the durable part instead: a power loss then cannot take back what was acknowledged or shown to a consumer.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from mqcore.identity import LeaderEpoch, Offset, TopicPartition
from mqcore.log.errors import LogFault
from mqcore.log.log import Log
from mqcore.log.times import TimeSearch
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.appender import Appended, Appender
from mqcore.partitions.log_view import acknowledged_end
from mqcore.partitions.producers import Producers
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadOutcome, ReadRequest, ReadResult
from mqcore.partitions.waiting_requests import (
    ALL_REPLICAS,
    COMMITTED,
    Acknowledgements,
    CommitQueue,
    NotLeader,
    OnCommit,
    StorageFault,
    Watchers,
)
from mqcore.wire import batches
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record, build_batch

_logger = logging.getLogger(__name__)

OFFLINE = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the log of this partition is offline")


class Partition:
    def __init__(
        self,
        name: TopicPartition,
        topic_id: UUID,
        log: Log,
        producers: Producers,
        leader_epoch: LeaderEpoch,
        request_sync: Callable[[Partition], None],
    ) -> None:
        self.name = name
        self.topic, self.index = name
        self.topic_id = topic_id
        self.log = log
        self.producers = producers
        self.appender = Appender(log, producers)
        self.high_watermark = Offset(log.end_offset)
        self.offline_reason: str | None = None
        self._stopped: NotLeader | StorageFault | None = None  # what waiting requests get since then
        self.cleaned_to = 0  # compaction is done below this offset
        self.watchers = Watchers()
        self._acknowledgements = Acknowledgements()
        self._durable = CommitQueue()
        self._request_sync = request_sync
        self._cache_settings(log.config)
        # Begin the epoch now and not with its first batch: a client may ask where it ends before anything is appended.
        self.become_leader(leader_epoch)

    # ── state ────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_offline(self) -> bool:
        return self.offline_reason is not None

    @property
    def last_stable_offset(self) -> Offset:
        """Equals the high watermark, because no transactional batch is accepted."""
        return self.high_watermark

    @property
    def log_start_offset(self) -> Offset:
        return Offset(self.log.start_offset)

    @property
    def log_end_offset(self) -> Offset:
        return Offset(self.log.end_offset)

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    @property
    def acknowledges_durable_only(self) -> bool:
        """Whether acknowledgements wait for a sync (`flush.messages=1`)."""
        return self._durable_only

    @property
    def allows_record_deletion(self) -> bool:
        """False for a topic that is only compacted: it keeps the last record of each key."""
        return self.log.config.delete

    def reconfigure(self, config: LogConfig) -> None:
        self.log.reconfigure(config)
        self.appender.reconfigure(config)
        self._cache_settings(config)
        if self.offline_reason is None:
            self._request_sync(self) if self._durable_only else self._advance()

    def _cache_settings(self, config: LogConfig) -> None:
        """Copy what every append needs into attributes, because the append is the hot path."""
        self._durable_only = config.flush_messages == 1
        self._flush_messages = config.flush_messages
        self.min_insync_replicas = config.min_insync_replicas

    def become_leader(self, leader_epoch: LeaderEpoch) -> None:
        """Lead in a new epoch. Batches appended from now on carry it; requests of the old epoch fail."""
        self._acknowledgements.fail(NotLeader("another leader epoch has begun"))
        self.leader_epoch = leader_epoch
        self.log.epochs.begin(leader_epoch, self.log.end_offset)

    def go_offline(self, reason: str) -> None:
        """The log cannot be used any more. Fail waiting requests and serve nothing until the broker restarts."""
        if self.offline_reason is None:
            _logger.error("partition offline", extra={"partition": str(self.name), "reason": reason})
            self._stop_serving(StorageFault(reason))

    def stop_leading(self, reason: str) -> None:
        """This broker no longer leads the partition, for example because its topic was deleted."""
        if self.offline_reason is None:
            self._stop_serving(NotLeader(reason))

    def _stop_serving(self, outcome: NotLeader | StorageFault) -> None:
        self.offline_reason, self._stopped = outcome.reason, outcome
        self._acknowledgements.fail(outcome)
        self._durable.fail(outcome)
        self.watchers.notify()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def append(self, batch: memoryview, now_ms: int) -> Appended | Refusal:
        """Append one batch from a client. Its offsets and leader epoch are written into `batch` itself."""
        if self.offline_reason is not None:
            return OFFLINE
        try:
            outcome = self.appender.append(batch, self.leader_epoch, now_ms)
        except LogFault as fault:
            self.go_offline(str(fault))
            return OFFLINE
        if isinstance(outcome, Appended) and not outcome.is_duplicate:
            self._on_appended()
        return outcome

    def append_records(self, records: Sequence[Record], limit_bytes: int = OWN_BATCH_BYTES_MAX) -> Offset:
        """Append records of the broker itself, assigning their offsets, and return the new end.

        Raises `OSError` if they cannot be written, and `BatchTooLarge` before writing if the batch would exceed
        `limit_bytes`. The default limit is what readers accept: a larger batch could never be loaded again."""
        if self.offline_reason is not None:
            raise OSError(errno.EIO, self.offline_reason)
        placed = [record._replace(offset=index) for index, record in enumerate(records)]
        batch = memoryview(build_batch(placed, limit_bytes=limit_bytes))
        header = batches.read_header(batch)
        try:
            outcome = self.appender.append_valid(batch, header, self.leader_epoch, placed[-1].timestamp)
        except LogFault as fault:
            self.go_offline(str(fault))
            raise OSError(errno.EIO, OFFLINE.message) from fault
        if isinstance(outcome, Refusal):
            raise OSError(errno.ENOSPC, outcome.message)
        self._on_appended()
        return outcome.end

    def _on_appended(self) -> None:
        if self._durable_only:
            self._request_sync(self)
            return
        self._advance()
        log = self.log
        if log.end_offset - log.flushed_offset >= self._flush_messages or log.segments.should_sync_soon:
            self._request_sync(self)

    def delete_records(self, offset: int) -> Offset | Refusal:
        """Delete the records below `offset` (−1 means the high watermark) and return the new log start."""
        if self.offline_reason is not None:
            return OFFLINE
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return self.log_start_offset

    # ── the commit ───────────────────────────────────────────────────────────────────────────────

    def is_acknowledged(self, end: Offset, acks: int) -> bool:
        """Whether everything below `end` is kept as `acks` demands: on this replica, or on all in-sync ones (-1)."""
        if acks == ALL_REPLICAS:
            return end <= self.high_watermark
        return end <= acknowledged_end(self.log, durable_only=self._durable_only)

    def when_acknowledged(self, end: Offset, acks: int, on_commit: OnCommit) -> None:
        """Call `on_commit` once `is_acknowledged`, or once it never will be. May call it immediately."""
        if self.is_acknowledged(end, acks):
            on_commit(COMMITTED)
        elif self._stopped is not None:
            on_commit(self._stopped)
        else:
            self._acknowledgements.add(acks, end, on_commit)

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self.when_acknowledged(end, ALL_REPLICAS, on_commit)

    def when_durable(self, on_durable: OnCommit) -> None:
        """Sync everything appended so far, whatever the topic's settings, then call `on_durable`."""
        if self._stopped is not None:
            on_durable(self._stopped)
        elif self.log.flushed_offset >= self.log.end_offset:
            on_durable(COMMITTED)
        else:
            self._durable.add(Offset(self.log.end_offset), on_durable)
            self._request_sync(self)

    def on_synced(self) -> None:
        """A sync has ended, so more of the log is durable."""
        self._durable.release(self.log.flushed_offset)
        if self.offline_reason is None and self._durable_only:
            self._advance()

    def _advance(self) -> None:
        """Move the high watermark to the committed end and wake the requests that wait for it.

        The order matters: the watermark moves first, because callbacks read up to it. Watchers only schedule their
        work, so whatever must happen before the answer to a commit waits for it itself (`MetadataObserver`)."""
        end = acknowledged_end(self.log, durable_only=self._durable_only)
        if end > self.high_watermark:
            self.high_watermark = Offset(end)
            self.watchers.notify()
            self._acknowledgements.release(end, end)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read(self, request: ReadRequest) -> ReadOutcome:
        offset, bytes_max, at_least_one, committed_only, current_leader_epoch, last_fetched_epoch = request
        if current_leader_epoch >= 0:
            refusal = self.check_leader_epoch(current_leader_epoch)
            if refusal is not None:
                return LeaderEpochMismatch(refusal.error, self.leader_epoch)
        if last_fetched_epoch >= 0:
            epoch, end = self.log.epochs.end_offset_for(last_fetched_epoch)
            if epoch < last_fetched_epoch or end < offset:
                return Divergence(epoch, end)
        if self.offline_reason is not None:
            return OFFLINE
        log = self.log
        if not log.start_offset <= offset <= log.end_offset:
            message = f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        limit = self.visible_end(committed_only=committed_only)
        records, ends_in_sealed_segment = None, False
        if offset < limit and (bytes_max > 0 or at_least_one):
            try:
                records = log.read(offset, bytes_max, limit=limit, at_least_one=at_least_one)
            except LogFault as fault:
                self.go_offline(str(fault))
                return OFFLINE
            except OSError as fault:
                return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log could not be read: {fault.strerror}")
            ends_in_sealed_segment = records is not None and offset < log.segments.active.base_offset
        return ReadResult(
            self.high_watermark, self.last_stable_offset, Offset(log.start_offset), records, ends_in_sealed_segment
        )

    def visible_end(self, *, committed_only: bool) -> Offset:
        """Readers see the records below this offset."""
        return self.last_stable_offset if committed_only else self.high_watermark

    def check_leader_epoch(self, current_leader_epoch: int) -> Refusal | None:
        """Compare the leader epoch that the client knows (−1 if it knows none) with ours."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return None
        if current_leader_epoch < self.leader_epoch:
            return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def log_start_epoch(self) -> int:
        """The leader epoch of the first record, or −1."""
        return self.log.epochs.epoch_at(self.log.start_offset)

    def search_time(self, timestamp: int, *, committed_only: bool) -> TimeSearch:
        """The first visible record that is not older than `timestamp`."""
        limit = self.visible_end(committed_only=committed_only)
        return self.log.search_time(timestamp, limit=limit)

    def search_max_timestamp(self, *, committed_only: bool) -> TimeSearch:
        """The first visible record with the largest timestamp."""
        limit = self.visible_end(committed_only=committed_only)
        return self.log.search_max_timestamp(limit=limit)
