"""Shell: syncs the logs of this broker on time, and writes checkpoints of what is durable.

Own rule: a checkpoint is written after the syncs it describes, so it never claims that unsynced data is durable.
"""

from __future__ import annotations

import contextlib
import logging

from mqcore.host import Clock, Threads
from mqcore.log.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, Offsets
from mqcore.log.errors import LogFault
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)

CLOSING_THREADS = 16


class Durability:
    def __init__(self, partitions: HostedPartitions, flusher: Flusher, clock: Clock, threads: Threads) -> None:
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._threads = threads
        self._dirty_since: dict[Partition, int] = {}

    # ── syncs ────────────────────────────────────────────────────────────────────────────────────

    def sync_all(self) -> list[tuple[Partition, int]]:
        """Request a sync of every log with unsynced data. Returns each with the offset it will be durable up to."""
        requested = []
        for partition in self._partitions:
            with contain_fault("sync", partition):
                if not partition.is_offline and partition.log.flushed_offset < partition.log.end_offset:
                    self._flusher.request_sync(partition)
                    requested.append((partition, partition.log.end_offset))
        return requested

    def sync_overdue(self, now_ms: int) -> None:
        """Request a sync of logs whose oldest unsynced data is older than their `flush.ms`."""
        dirty_since: dict[Partition, int] = {}
        for partition in self._partitions:
            with contain_fault("sync", partition):
                if partition.is_offline or partition.log.flushed_offset >= partition.log.end_offset:
                    continue
                since = self._dirty_since.get(partition, now_ms)
                if now_ms - since >= partition.log.config.flush_ms:
                    self._flusher.request_sync(partition)
                else:
                    dirty_since[partition] = since
        self._dirty_since = dirty_since

    async def sync_and_checkpoint(self, timeout_s: float) -> None:
        """Sync everything, then write the checkpoints. After `timeout_s`, write how far the syncs have come."""
        requested = self.sync_all()
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(timeout_s):
                while requested:
                    partition, end = requested[-1]
                    if partition.is_offline or partition.log.flushed_offset >= end:
                        requested.pop()
                    else:
                        await self._flusher.wait_for_any_sync()
        self.write_checkpoints()

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────

    def write_checkpoints(self) -> None:
        """Write how far each log is durable and where it starts, so that a restart scans only from there."""
        points = {partition: partition.log.flushed_offset for partition in self._partitions}
        try:
            self._write(RECOVERY_POINTS, {partition.name: point for partition, point in points.items()})
            for partition, point in points.items():
                partition.log.recovery_point = point
        finally:
            self._write(LOG_STARTS, {partition.name: int(partition.log_start_offset) for partition in self._partitions})
        self._partitions.stored_offsets.write_dropped()  # includes the cleaner's file, which no one writes if it is off

    def write_cleaner_checkpoint(self) -> None:
        """Write how far each log is compacted: the next run begins there."""
        compacted = {partition.name: partition.cleaned_to for partition in self._partitions if partition.cleaned_to}
        self._write(CLEANER_OFFSETS, compacted)

    def write_high_watermarks(self) -> None:
        """Write how far each copied partition is committed. An only replica needs no entry: it has all there is."""
        known = {partition.name: int(partition.high_watermark) for partition in self._partitions.copied()}
        if known or self._partitions.stored_offsets.has_entries(HIGH_WATERMARKS):
            self._write(HIGH_WATERMARKS, known)

    def _write(self, file: str, offsets: Offsets) -> None:
        """Keep the entries of partitions that could not be opened: a later start needs them."""
        stored = self._partitions.stored_offsets
        kept = {name: stored.get(file, name) for name in self._partitions.open_failures if stored.get(file, name)}
        stored.write(file, kept | dict(offsets))

    def close(self) -> bool:
        """Flush and close every log. True if none of them has a fault, so that the clean mark may be written."""
        with self._threads.pool(CLOSING_THREADS, "close") as pool:  # several syncs in parallel take hardly longer
            is_clean = all([not self._partitions.open_failures, *pool.map(_close, self._partitions)])
        try:
            self.write_checkpoints()
            self.write_high_watermarks()
        except OSError as fault:
            is_clean = False
            log.error("checkpoints not written", extra={"reason": str(fault)})
        return is_clean


def _close(partition: Partition) -> bool:
    try:
        partition.log.close()
    except (OSError, LogFault) as fault:
        log.error("log not closed", extra={"partition": str(partition.name), "reason": str(fault)})
        return False
    except Exception:  # the remaining logs must still be closed
        log.exception("log not closed", extra={"partition": str(partition.name)})
        return False
    return not partition.is_offline
