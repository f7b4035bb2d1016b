"""Shell: all partitions this broker has a copy of, their folders, and the housekeeping of their logs.

Data folder, as Kafka lays it out:  <topic>-<partition>/…  (`folders`)
recovery-point-offset-checkpoint  log-start-offset-checkpoint  cleaner-offset-checkpoint  .kafka_cleanshutdown

Own rule: a fault of one partition never keeps the others from being opened, served or looked after (`faults`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mqcore.clock import Clock
from mqcore.disk.port import Disk
from mqcore.identity import LeaderEpoch, Millis, TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, Offsets
from mqcore.log.config import LogConfig
from mqcore.log.errors import PASSING
from mqcore.log.log import CorruptLog, Log, LogFailed
from mqcore.log.recovery import Recovery
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.folders import PartitionFolders
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import ProducerBudget, Producers
from mqcore.partitions.stored_offsets import StoredOffsets

log = logging.getLogger(__name__)

CLOSING_THREADS = 16


class Unopened(NamedTuple):
    """A partition whose log could not be opened."""

    topic_id: UUID
    may_pass: bool  # for lack of descriptors or space: another attempt may succeed


class HostedPartitions:
    def __init__(self, disk: Disk, clock: Clock, flusher: Flusher, *, clean: bool, producer_expiration_ms: int) -> None:
        self._disk = disk
        self._clock = clock
        self._flusher = flusher
        self.clean = clean
        self.producer_expiration_ms = producer_expiration_ms
        self._folders = PartitionFolders(disk)
        self._stored = StoredOffsets(disk)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._dirty_since: dict[TopicPartition, int] = {}
        self._unopened: dict[TopicPartition, Unopened] = {}  # the one tried last comes last
        self.offline: dict[TopicPartition, str] = {}  # why each of these is not open
        self.producer_budget = ProducerBudget()
        self.disk_is_full = False

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get(TopicPartition(topic, index))

    def by_id(self, topic_id: UUID, index: int) -> Partition | None:
        return self._by_id.get((topic_id, index))

    # ── coming and going ─────────────────────────────────────────────────────────────────────────

    def open(
        self, name: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, settings: Mapping[str, str]
    ) -> Partition | None:
        """Open or make the log of one partition; None (and an alarm) if that fails, for whatever reason."""
        producers = Producers(self.producer_budget)
        directory = str(name)
        failed_before = self._unopened.pop(name, None) is not None
        try:
            self._folders.claim(directory, topic_id, lambda: self._stored.forget(name))
            opened = Log.open(
                self._disk,
                directory,
                LogConfig.from_settings(settings),
                now_ms=self._clock.wall_ms(),
                clean=self.clean and not failed_before,
                recovery_point=self._stored.of(RECOVERY_POINTS, name),
                start_offset=self._stored.of(LOG_STARTS, name),
                observer=producers,
            )
            self._stored.forget_above(name, opened.end_offset)
            if opened.config.flush_messages == 1 and opened.flushed_offset < opened.end_offset:
                opened.sync()  # a crash left it in the page cache: nobody may see it before it is durable
        except (OSError, CorruptLog, LogFailed) as fault:
            producers.clear()
            self._keep_unopened(name, topic_id, fault)
            return None
        except Exception as fault:
            producers.clear()
            log.exception("a partition could not be opened", extra={"partition": directory})
            self._keep_unopened(name, topic_id, fault)
            return None
        if failed_before:
            del self.offline[name]
            log.info("partition online again", extra={"partition": directory})
        _report(directory, opened.recovery)
        partition = Partition(name, topic_id, opened, producers, leader_epoch, self._flusher.request)
        partition.cleaned_to = self._stored.of(CLEANER_OFFSETS, name)
        if not opened.size_bytes:
            partition.before_first_append = partial(self._folders.name_topic, directory, topic_id)
        self._partitions[name] = self._by_id[topic_id, name.partition] = partition
        return partition

    def _keep_unopened(self, name: TopicPartition, topic_id: UUID, fault: Exception) -> None:
        self._unopened[name] = Unopened(topic_id, isinstance(fault, OSError) and fault.errno in PASSING)
        if self.offline.get(name) != str(fault):  # once, however often it is tried
            self.offline[name] = str(fault)
            log.error("partition offline", extra={"partition": str(name), "reason": str(fault)})

    def retryable(self) -> list[tuple[TopicPartition, UUID]]:
        """Unopened partitions that another `open` may bring online; the one tried last comes last."""
        return [(name, unopened.topic_id) for name, unopened in self._unopened.items() if unopened.may_pass]

    def names_of(self, topic_id: UUID) -> list[TopicPartition]:
        """All partitions of a topic, whether they could be opened or not."""
        opened = [partition.name for partition in self if partition.topic_id == topic_id]
        return opened + [name for name, unopened in self._unopened.items() if unopened.topic_id == topic_id]

    def remove(self, name: TopicPartition) -> None:
        """Take a deleted topic's partition away; its folder is renamed now and removed by housekeeping."""
        partition = self._partitions.pop(name, None)
        unopened = self._unopened.pop(name, None)
        self.offline.pop(name, None)
        if partition is not None:
            topic_id = partition.topic_id
            del self._by_id[topic_id, name.partition]
            self._dirty_since.pop(name, None)
            partition.withdraw("the topic was deleted")
            partition.producers.clear()
            self._flusher.settle(partition)
        elif unopened is not None:
            topic_id = unopened.topic_id
        else:
            return
        self._stored.drop(name)
        try:
            if self._disk.exists(str(name)):
                self._folders.put_aside(str(name), topic_id)
        except OSError as fault:  # the next start puts it aside as a stray
            log.error("folder of a deleted topic stays", extra={"partition": str(name), "reason": str(fault)})

    def put_strays_aside(self) -> None:
        """Folders of partitions that no topic has."""
        self._folders.put_strays_aside(self._is_known, self._clock.wall_ms())

    def _is_known(self, topic: str, index: int) -> bool:
        name = TopicPartition(topic, index)
        return name in self._partitions or name in self.offline

    # ── housekeeping ─────────────────────────────────────────────────────────────────────────────

    def expire(self) -> None:
        """Retention, expired producers, and folders of deleted topics; all steps at once."""
        for _ in self.expire_steps():
            pass

    def expire_steps(self) -> Iterator[None]:
        """Each step is one log or one folder; a log's segments go with a sync of its folder for each."""
        now = self._clock.now()
        for partition in self:
            if partition.offline is None:
                with contain_fault("retention", partition):
                    _expire_log(partition, now.wall_ms)
                with contain_fault("expiry of producers", partition):
                    partition.producers.expire(now.monotonic_ms, self.producer_expiration_ms)
                yield
        yield from self._folders.remove_steps(now.wall_ms)

    def look_at_space(self, least_bytes: int) -> None:
        """Keep a reserve: what the broker itself must write down, it can, and retention gets time to make room."""
        free_bytes = self._disk.free_bytes()
        if (free_bytes < least_bytes) is not self.disk_is_full:
            self.disk_is_full = not self.disk_is_full
            said = "disk is full, produces are refused" if self.disk_is_full else "disk has room again"
            log.warning(said, extra={"free_bytes": free_bytes, "least_bytes": least_bytes})

    def sync_all(self) -> list[tuple[Partition, int]]:
        """Request a sync of everything that is not durable yet; the logs, and the end that each will be durable to."""
        wanted = []
        for partition in self:
            with contain_fault("sync", partition):
                if partition.offline is None and partition.log.flushed_offset < partition.log.end_offset:
                    self._flusher.request(partition)
                    wanted.append((partition, partition.log.end_offset))
        return wanted

    async def sync_and_checkpoint(self, patience_s: float) -> None:
        """Sync everything, then write down how far it is durable. After `patience_s`, write down what there is."""
        wanted = self.sync_all()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while wanted:
                    partition, end = wanted[-1]
                    if partition.offline is not None or partition.log.flushed_offset >= end:
                        wanted.pop()
                    else:
                        await self._flusher.next_end()
        self.checkpoint()

    def sync_overdue(self, now_ms: int) -> None:
        """Sync logs that have held something not durable for their `flush.ms`."""
        for partition in self:
            with contain_fault("sync", partition):
                if partition.offline is not None or partition.log.flushed_offset >= partition.log.end_offset:
                    self._dirty_since.pop(partition.name, None)
                elif now_ms - self._dirty_since.setdefault(partition.name, now_ms) >= partition.log.config.flush_ms:
                    del self._dirty_since[partition.name]
                    self._flusher.request(partition)

    def checkpoint(self) -> None:
        """Write down how far each log is durable and where it starts: a restart scans only from there."""
        points = {partition: partition.log.flushed_offset for partition in self}
        try:
            self._write(RECOVERY_POINTS, {partition.name: point for partition, point in points.items()})
            for partition, point in points.items():
                partition.log.recovery_point = point
        finally:
            self._write(LOG_STARTS, {p.name: int(p.log_start_offset) for p in self})
        self._stored.write_dropped()  # the cleaner may be off

    def checkpoint_cleaner(self) -> None:
        """Write down how far each log is compacted: the next run begins there."""
        self._write(CLEANER_OFFSETS, {p.name: p.cleaned_to for p in self if p.cleaned_to})

    def _write(self, file: str, offsets: Offsets) -> None:
        """With what an earlier run wrote of partitions that are offline now."""
        kept = {name: self._stored.of(file, name) for name in self.offline if self._stored.of(file, name)}
        self._stored.write(file, kept | dict(offsets))

    def close(self) -> bool:
        """Flush and close every log; True if all of them are whole, so that the clean mark may be written."""
        with ThreadPoolExecutor(CLOSING_THREADS) as threads:  # several syncs together take hardly longer than one
            whole = all([not self.offline, *threads.map(_close, self)])
        try:
            self.checkpoint()
        except OSError as fault:
            whole = False
            log.error("checkpoints not written", extra={"reason": str(fault)})
        return whole


def _expire_log(partition: Partition, now_ms: Millis) -> None:
    removed = partition.log.expire(now_ms, limit=partition.high_watermark)
    if removed:
        log.info("segments deleted", extra={"partition": str(partition.name), "segments": len(removed)})


def _close(partition: Partition) -> bool:
    try:
        partition.log.close()
    except (OSError, LogFailed) as fault:
        log.error("log not closed", extra={"partition": str(partition.name), "reason": str(fault)})
        return False
    except Exception:  # the other logs have to be closed
        log.exception("log not closed", extra={"partition": str(partition.name)})
        return False
    return partition.offline is None


def _report(directory: str, recovery: Recovery) -> None:
    """One line for a log that was not closed cleanly; a warning if something was cut."""
    if not recovery.clean:
        values = ((field.name, getattr(recovery, field.name)) for field in fields(recovery))
        found = {name: value for name, value in values if value and name != "clean"}
        if not found:
            return  # it is new, or was empty
        level = logging.WARNING if recovery.cut_bytes or recovery.missing_offsets else logging.INFO
        log.log(level, "log recovered", extra={"partition": directory, **found})
