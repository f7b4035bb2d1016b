"""Shell: all partitions this broker has a copy of, their folders, and the housekeeping of their logs.

Data folder, as Kafka lays it out:  <topic>-<partition>/…  <topic>-<partition>.<id>-delete/ (on its way out)
recovery-point-offset-checkpoint  log-start-offset-checkpoint  cleaner-offset-checkpoint  .kafka_cleanshutdown
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from uuid import UUID

from mqcore.clock import Clock
from mqcore.disk.port import Disk
from mqcore.identity import LeaderEpoch, Millis, TopicPartition, kafka_uuid, parse_kafka_uuid
from mqcore.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, CheckpointFile
from mqcore.log.config import LogConfig
from mqcore.log.log import CorruptLog, Log, LogFailed
from mqcore.log.recovery import Recovery
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers

log = logging.getLogger(__name__)

DELETED = "-delete"
LONGEST_NAME = 200
STRAY = "-stray"
METADATA_FILE = "partition.metadata"
PARTITION_FOLDER = re.compile(r"[a-zA-Z0-9._-]+-[0-9]+")


class HostedPartitions:
    def __init__(self, disk: Disk, clock: Clock, flusher: Flusher, *, clean: bool, producer_expiration_ms: int) -> None:
        self._disk = disk
        self._clock = clock
        self._flusher = flusher
        self.clean = clean
        self._producer_expiration_ms = producer_expiration_ms
        self._recovery_points = CheckpointFile(disk, RECOVERY_POINTS)
        self._start_offsets = CheckpointFile(disk, LOG_STARTS)
        self._points = self._recovery_points.read()  # these two: what the files hold,
        self._starts = self._start_offsets.read()
        self._offsets_stale = False  # … but for deleted partitions
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._dirty_since: dict[TopicPartition, int] = {}
        self.offline: dict[TopicPartition, str] = {}

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
        """Open or make the log of one partition; None (and an alarm) if its log is corrupt or cannot be read."""
        producers = Producers()
        directory = str(name)
        try:
            if self._claim_folder(directory, topic_id):
                self._forget(name)
            opened = Log.open(
                self._disk,
                directory,
                LogConfig.from_settings(settings),
                now_ms=self._clock.wall_ms(),
                clean=self.clean,
                recovery_point=self._points.get(name, 0),
                start_offset=self._starts.get(name, 0),
                observer=producers,
            )
            if opened.config.flush_messages == 1 and opened.flushed_offset < opened.end_offset:
                opened.sync()  # a crash left it in the page cache: nobody may see it before it is durable
        except (OSError, CorruptLog, LogFailed) as fault:
            self.offline[name] = str(fault)
            log.error("partition offline", extra={"partition": directory, "reason": str(fault)})
            return None
        _report(directory, opened.recovery)
        partition = Partition(name, topic_id, opened, producers, leader_epoch, self._flusher.request)
        self._partitions[name] = self._by_id[topic_id, name.partition] = partition
        return partition

    def remove(self, name: TopicPartition) -> None:
        """Take a deleted topic's partition away; its folder is renamed now and removed by housekeeping."""
        partition = self._partitions.pop(name, None)
        self.offline.pop(name, None)
        if partition is None:
            return
        del self._by_id[partition.topic_id, name.partition]
        self._dirty_since.pop(name, None)
        self._drop_offsets(name)
        partition.go_offline("the topic was deleted")
        try:
            self._put_aside(str(name), partition.topic_id)
        except OSError as fault:  # the next start puts it aside as a stray
            log.error("folder of a deleted topic stays", extra={"partition": str(name), "reason": str(fault)})

    def _put_aside(self, directory: str, topic_id: UUID) -> None:
        """Housekeeping removes it later."""
        self._disk.rename(directory, _renamed(directory, topic_id.hex, DELETED))

    def _claim_folder(self, directory: str, topic_id: UUID) -> bool:
        """Whether it is new. A folder says which topic it is of; one of an older topic of the name is put aside."""
        path = f"{directory}/{METADATA_FILE}"
        if self._disk.exists(path):
            found = _topic_id_of(self._disk.read_whole(path))
            if found not in (None, topic_id):
                log.warning("folder of a deleted topic put aside", extra={"partition": directory})
                self._put_aside(directory, found)
        new = not self._disk.exists(directory)
        if not self._disk.exists(path):
            self._disk.make_directory(directory)
            # Not synced: the metadata log is the truth, and a folder it does not know is put aside at the next start.
            self._disk.open(path, create=True).append((f"version: 0\ntopic_id: {kafka_uuid(topic_id)}\n".encode(),))
        return new

    def _forget(self, name: TopicPartition) -> None:
        """What the checkpoints say of an older partition of this name must be gone before the new one keeps anything:
        its log start would cut off the new one's records at the next start."""
        self._drop_offsets(name)
        if self._offsets_stale:
            self._write_offsets()

    def _drop_offsets(self, name: TopicPartition) -> None:
        for offsets in (self._points, self._starts):
            if offsets.pop(name, None) is not None:
                self._offsets_stale = True

    def put_strays_aside(self) -> None:
        """Folders of partitions that no topic has: of a topic that was deleted when the power went, or a mistake."""
        for name in self._disk.names(""):
            folder = name.rstrip("/")
            if name.endswith("/") and PARTITION_FOLDER.fullmatch(folder) and not self._known(folder):
                log.warning("folder of no known partition put aside", extra={"folder": folder})
                self._disk.rename(folder, _renamed(folder, str(self._clock.wall_ms()), STRAY))

    def _known(self, folder: str) -> bool:
        topic, _, index = folder.rpartition("-")
        name = TopicPartition(topic, int(index))
        return name in self._partitions or name in self.offline

    # ── housekeeping ─────────────────────────────────────────────────────────────────────────────

    def expire(self) -> None:
        """Retention, expired producers, and folders of deleted topics."""
        now = self._clock.now()
        for partition in self:
            if partition.offline is None:
                self._expire_log(partition, now.wall_ms)
                partition.producers.expire(now.monotonic_ms, self._producer_expiration_ms)
        for name in self._disk.names(""):
            if name.endswith(DELETED + "/"):
                self._disk.remove(name.rstrip("/"))

    def sync_all(self) -> None:
        """Ask for a sync of everything that is not durable yet."""
        for partition in self:
            if partition.offline is None and partition.log.flushed_offset < partition.log.end_offset:
                self._flusher.request(partition)

    def sync_overdue(self, now_ms: int) -> None:
        """Sync logs that have held something not durable for their `flush.ms`."""
        for partition in self:
            if partition.offline is not None or partition.log.flushed_offset >= partition.log.end_offset:
                self._dirty_since.pop(partition.name, None)
            elif now_ms - self._dirty_since.setdefault(partition.name, now_ms) >= partition.log.config.flush_ms:
                del self._dirty_since[partition.name]
                self._flusher.request(partition)

    def checkpoint(self) -> None:
        """Write down how far each log is durable and where it starts: a restart scans only from there."""
        self._points = {p.name: p.log.flushed_offset for p in self} | self._kept(self._points)
        self._starts = {p.name: int(p.log_start_offset) for p in self} | self._kept(self._starts)
        self._write_offsets()

    def _write_offsets(self) -> None:
        self._recovery_points.write(self._points)
        self._start_offsets.write(self._starts)
        self._offsets_stale = False

    def _kept(self, values: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What an earlier run wrote of partitions that are offline now."""
        return {name: values[name] for name in self.offline if name in values}

    def close(self) -> bool:
        """Flush and close every log; True if all of them are whole, so that the clean mark may be written."""
        whole = not self.offline
        for partition in self:
            whole = whole and partition.offline is None
            try:
                partition.log.close()
            except (OSError, LogFailed) as fault:
                whole = False
                log.error("log not closed", extra={"partition": str(partition.name), "reason": str(fault)})
        try:
            self.checkpoint()
        except OSError as fault:
            whole = False
            log.error("checkpoints not written", extra={"reason": str(fault)})
        return whole

    def _expire_log(self, partition: Partition, now_ms: Millis) -> None:
        try:
            removed = partition.log.expire(now_ms, limit=partition.high_watermark)
        except LogFailed as fault:
            partition.go_offline(str(fault))
        except OSError as fault:
            log.error("retention failed", extra={"partition": str(partition.name), "reason": str(fault)})
        else:
            if removed:
                log.info("segments deleted", extra={"partition": str(partition.name), "segments": len(removed)})


def _report(directory: str, recovery: Recovery) -> None:
    """One line for a log that was not closed cleanly; a warning if something was cut."""
    if not recovery.clean:
        found = {name: value for name, value in asdict(recovery).items() if value and name != "clean"}
        if not found:
            return  # it is new, or was empty
        level = logging.WARNING if recovery.cut_bytes or recovery.missing_offsets else logging.INFO
        log.log(level, "log recovered", extra={"partition": directory, **found})


def _renamed(directory: str, mark: str, suffix: str) -> str:
    """Cut, because the name of a topic may already be as long as a file system's names can be."""
    topic, _, index = directory.rpartition("-")
    return f"{topic[:LONGEST_NAME]}-{index}.{mark}{suffix}"


def _topic_id_of(content: bytes) -> UUID | None:
    for line in content.decode(errors="replace").splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            try:
                return parse_kafka_uuid(value)
            except ValueError:
                return None
    return None
