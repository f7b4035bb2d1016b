"""Shell over a store: the leading copy of one partition.

Validate → give it offsets → append → advance the high watermark → wake who waits. The watermark is the lowest
end among the in-sync replicas; with one replica that is the own end: of the log, or of its durable part where
the topic asks for `flush.messages=1`, so that nothing is acknowledged or shown that a power loss could take back.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from mqcore.identity import LeaderEpoch, Offset, TopicPartition
from mqcore.log.config import LogConfig
from mqcore.log.errors import NO_DESCRIPTORS, PASSING
from mqcore.log.log import CorruptLog, Log, LogFailed, Slice
from mqcore.partitions.parked import CommitQueue, Committed, Watchers
from mqcore.partitions.producers import Duplicate, Producers
from mqcore.partitions.validation import examine
from mqcore.wire import batches
from mqcore.wire.batches import BatchHeader
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.records import LIMIT_BYTES, Record, build_batch


class Appended(NamedTuple):
    """Where a batch is in the log. `end` is what must be committed before it may be acknowledged."""

    base_offset: Offset
    end: Offset
    append_time_ms: int  # -1: CreateTime
    duplicate: bool = False


class Fetched(NamedTuple):
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    records: Slice | None


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
        self.produced_bytes = self.produced_records = 0  # in this life
        self.high_watermark = Offset(log.end_offset)
        self.offline: str | None = None
        self.cleaned_to = 0  # below it, compaction is done
        self.before_first_append: Callable[[], None] | None = None
        self.watchers = Watchers()
        self._committed = CommitQueue()
        self._durable = CommitQueue()
        self._request_sync = request_sync
        self._take_config(log.config)
        self.lead(leader_epoch)

    @property
    def last_stable_offset(self) -> Offset:
        """Nothing is transactional yet: everything committed is stable."""
        return self.high_watermark

    @property
    def log_start_offset(self) -> Offset:
        return Offset(self.log.start_offset)

    @property
    def acknowledges_durable_only(self) -> bool:
        """Whether acknowledgements wait for the sync."""
        return self._durable_only

    def _take_config(self, config: LogConfig) -> None:
        """What every append asks for."""
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._durable_only = config.flush_messages == 1
        self._flush_messages = config.flush_messages
        self.min_insync_replicas = config.min_insync_replicas

    def lead(self, leader_epoch: LeaderEpoch) -> None:
        """Lead in a new epoch: what is appended from here on is of it."""
        self.leader_epoch = leader_epoch
        self.log.epochs.begin(leader_epoch, self.log.end_offset)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def append(self, batch: memoryview, now_ms: int) -> Appended | Refusal:
        """Append one batch of a client, stamping it in place."""
        if self.offline is not None:
            return OFFLINE
        header = examine(batch, self.log.config, now_ms)
        if isinstance(header, Refusal):
            return header
        if header.producer_id >= 0:
            verdict = self.producers.check(header)
            if isinstance(verdict, Duplicate):
                append_time = verdict.timestamp if self._log_append_time else -1
                return Appended(Offset(verdict.base_offset), Offset(verdict.last_offset + 1), append_time, True)
            if verdict is not None:
                return verdict
        return self._append(batch, header, now_ms)

    def append_records(self, records: Sequence[Record], limit_bytes: int = LIMIT_BYTES) -> Offset:
        """Append the broker's own records (offsets are given here) and return the end; OSError if it cannot.

        `BatchTooLarge`, before anything is written, if the batch would exceed `limit_bytes`. The default is what
        readers of a batch accept: a batch that they refuse could never be loaded again."""
        if self.offline is not None:
            raise OSError(errno.EIO, self.offline)
        placed = [record._replace(offset=index) for index, record in enumerate(records)]
        batch = memoryview(build_batch(placed, limit_bytes=limit_bytes))
        appended = self._append(batch, batches.read_header(batch), placed[-1].timestamp)
        if isinstance(appended, Refusal):
            raise OSError(errno.EIO if appended is OFFLINE else errno.ENOSPC, appended.message)
        return appended.end

    def _append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Appended | Refusal:
        log, epoch = self.log, self.leader_epoch
        if self.before_first_append is not None:
            refusal = self._prepare(self.before_first_append)
            if refusal is not None:
                return refusal
        base = log.end_offset
        batches.stamp(batch, base, epoch)
        header = BatchHeader(base, header.length, epoch, *header[3:])  # a third of the time that `_replace` takes
        append_time = -1
        if self._log_append_time:
            header = batches.stamp_append_time(batch, header, now_ms)
            append_time = now_ms
        try:
            log.append(batch, (header,), now_ms)
        except LogFailed as fault:
            self.go_offline(str(fault))
            return OFFLINE
        except OSError as fault:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the batch could not be written: {fault.strerror}")
        self.produced_bytes += header.length
        self.produced_records += header.records_count
        if self._durable_only:
            self._request_sync(self)
        else:
            self._advance()
            if log.end_offset - log.flushed_offset >= self._flush_messages or log.segments.wants_sync:
                self._request_sync(self)
        return Appended(Offset(base), Offset(base + header.last_offset_delta + 1), append_time)

    def _prepare(self, before_first_append: Callable[[], None]) -> Refusal | None:
        try:
            before_first_append()
        except OSError as fault:
            if fault.errno in NO_DESCRIPTORS:
                return None  # the log itself is open: a later batch tries again
            if fault.errno in PASSING:
                return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the batch could not be written: {fault.strerror}")
            self.go_offline(f"the folder could not be prepared: {fault}")
            return OFFLINE
        self.before_first_append = None
        return None

    # ── the commit ───────────────────────────────────────────────────────────────────────────────

    def when_committed(self, end: Offset, then: Committed) -> None:
        if end <= self.high_watermark:
            then(None)
        elif self.offline is not None:
            then(OSError(errno.EIO, self.offline))
        else:
            self._committed.add(end, then)

    def when_durable(self, then: Committed) -> None:
        """Sync what has been appended so far, whatever the topic asks for, and call `then`."""
        if self.offline is not None:
            then(OSError(errno.EIO, self.offline))
        elif self.log.flushed_offset >= self.log.end_offset:
            then(None)
        else:
            self._durable.add(Offset(self.log.end_offset), then)
            self._request_sync(self)

    def synced(self) -> None:
        """A sync has ended: more of the log is durable."""
        self._durable.release(self.log.flushed_offset)
        if self.offline is None and self._durable_only:
            self._advance()

    def reconfigure(self, config: LogConfig) -> None:
        self.log.reconfigure(config)
        self._take_config(config)
        if self.offline is None:
            self._request_sync(self) if self._durable_only else self._advance()

    def _advance(self) -> None:
        end = self.log.flushed_offset if self._durable_only else self.log.end_offset
        if end > self.high_watermark:
            self.high_watermark = Offset(end)
            self.watchers.tell()
            self._committed.release(end)

    def go_offline(self, reason: str) -> None:
        """For good, with an alarm: whoever waits is told, and nothing is served until a restart."""
        if self.offline is None:
            _logger.error("partition offline", extra={"partition": str(self.name), "reason": reason})
            self.withdraw(reason)

    def withdraw(self, reason: str) -> None:
        """Stop serving, as a deleted topic does. Waiting requests get an error."""
        if self.offline is None:
            self.offline = reason
            self._committed.fail(OSError(errno.EIO, reason))
            self._durable.fail(OSError(errno.EIO, reason))
            self.watchers.tell()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def fetch(self, offset: int, max_bytes: int, *, at_least_one: bool, committed_only: bool) -> Fetched | Refusal:
        if self.offline is not None:
            return OFFLINE
        limit = self.last_stable_offset if committed_only else self.high_watermark
        if not self.log.start_offset <= offset <= self.log.end_offset:
            message = f"offset {offset} is outside {self.log.start_offset} to {self.log.end_offset}"
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        records = None
        if offset < limit and (max_bytes > 0 or at_least_one):
            try:
                records = self.log.read(offset, max_bytes, limit=limit, at_least_one=at_least_one)
            except (LogFailed, CorruptLog) as fault:
                self.go_offline(str(fault))
                return OFFLINE
            except OSError as fault:
                return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log could not be read: {fault.strerror}")
        return Fetched(self.high_watermark, self.last_stable_offset, self.log_start_offset, records)

    def check_epoch(self, current_leader_epoch: int) -> Refusal | None:
        """The client's idea of the leader epoch (−1: none) against ours."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return None
        if current_leader_epoch < self.leader_epoch:
            return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete_records(self, offset: int) -> Offset | Refusal:
        """Move the log start up to `offset` (−1: the high watermark)."""
        if self.offline is not None:
            return OFFLINE
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.start_offset:
            self.log.advance_start(target)
        return self.log_start_offset
