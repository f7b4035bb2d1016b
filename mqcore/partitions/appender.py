"""Store: the write side of a log. For a leader it validates a batch, drops duplicates, assigns offsets and appends.

Own rule: a refused batch leaves no trace, neither in the log nor in the state of its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mqcore.identity import LeaderEpoch, Offset
from mqcore.log.errors import DESCRIPTOR_ERRNOS, RETRYABLE_ERRNOS, LogFailed
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.producers import Duplicate, Producers
from mqcore.partitions.validation import validate_batch
from mqcore.wire import batches
from mqcore.wire.batches import BatchHeader, Buffer
from mqcore.wire.errors import ErrorCode, Refusal


class Appended(NamedTuple):
    """Where a batch is in the log. It may be acknowledged once everything below `end` is committed."""

    base_offset: Offset
    end: Offset
    append_time_ms: int  # -1 with CreateTime: the records keep their producer's timestamps
    is_duplicate: bool = False


class Appender:
    """All ways to append raise `LogFault` if the log cannot be used any more."""

    def __init__(self, log: Log, producers: Producers) -> None:
        self._log = log
        self._producers = producers
        self.produced_bytes = self.produced_records = 0  # since this broker opened the partition
        self.before_first_append: Callable[[], None] | None = None
        self.reconfigure(log.config)

    def reconfigure(self, config: LogConfig) -> None:
        self._uses_log_append_time = config.message_timestamp_type == "LogAppendTime"  # read by every append

    def append(self, batch: memoryview, leader_epoch: LeaderEpoch, now_ms: int) -> Appended | Refusal:
        """Append one batch from a client. Its offsets and leader epoch are written into `batch` itself."""
        header = validate_batch(batch, self._log.config, now_ms)
        if isinstance(header, Refusal):
            return header
        if header.producer_id >= 0:
            verdict = self._producers.check(header)
            if isinstance(verdict, Duplicate):
                append_time = verdict.timestamp if self._uses_log_append_time else -1
                return Appended(Offset(verdict.base_offset), Offset(verdict.last_offset + 1), append_time, True)
            if verdict is not None:
                return verdict
        return self.append_valid(batch, header, leader_epoch, now_ms)

    def append_valid(
        self, batch: memoryview, header: BatchHeader, leader_epoch: LeaderEpoch, now_ms: int
    ) -> Appended | Refusal:
        """Append a batch that needs no validation, because the broker itself has built it."""
        log = self._log
        if self.before_first_append is not None:
            refusal = self._run_before_first_append(self.before_first_append)
            if refusal is not None:
                return refusal
        base = log.end_offset
        batches.stamp(batch, base, leader_epoch)
        header = BatchHeader(base, header.length, leader_epoch, *header[3:])  # three times as fast as `_replace`
        append_time = -1
        if self._uses_log_append_time:
            header = batches.stamp_append_time(batch, header, now_ms)
            append_time = now_ms
        try:
            log.append(batch, (header,), now_ms)
        except OSError as fault:
            return _not_written(fault)
        self.produced_bytes += header.length
        self.produced_records += header.records_count
        return Appended(Offset(base), Offset(base + header.last_offset_delta + 1), append_time)

    def append_fetched(self, records: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> Refusal | None:
        """Append batches as the leader has written them."""
        if self.before_first_append is not None:
            refusal = self._run_before_first_append(self.before_first_append)
            if refusal is not None:
                return refusal
        try:
            self._log.append(records, headers, now_ms)
        except OSError as fault:
            return _not_written(fault)
        return None

    def _run_before_first_append(self, before_first_append: Callable[[], None]) -> Refusal | None:
        try:
            before_first_append()
        except OSError as fault:
            if fault.errno in DESCRIPTOR_ERRNOS:
                return None  # the log itself is open, so accept this batch; the next one tries again
            if fault.errno in RETRYABLE_ERRNOS:
                return _not_written(fault)
            raise LogFailed(self._log.directory, f"the folder could not be prepared: {fault}") from fault
        self.before_first_append = None
        return None


def _not_written(fault: OSError) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the batch could not be written: {fault.strerror}")
