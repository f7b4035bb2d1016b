"""Shell: the partitions whose logs this broker has, from opening a folder to deleting it.

Own rule: a fault of one partition never prevents the others from being opened or served.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mqcore.disk.port import Disk
from mqcore.host import Clock
from mqcore.identity import METADATA_TOPIC, LeaderEpoch, TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS
from mqcore.log.errors import RETRYABLE_ERRNOS, LogFault
from mqcore.log.log import Log
from mqcore.log.recovery import RecoveryReport
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.folders import PartitionFolders
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import ProducerBudget, Producers
from mqcore.partitions.stored_offsets import StoredOffsets

log = logging.getLogger(__name__)


class OpenFailure(NamedTuple):
    """Why the log of a partition could not be opened."""

    topic_id: UUID
    reason: str
    is_retryable: bool  # the process lacked descriptors or space, so another attempt may succeed


class HostedPartitions:
    """`is_clean` says whether the broker stopped cleanly, so that logs need no verification when they are opened."""

    def __init__(self, disk: Disk, clock: Clock, flusher: Flusher, *, is_clean: bool) -> None:
        self._disk = disk
        self._clock = clock
        self._flusher = flusher
        self.is_clean = is_clean
        self.folders = PartitionFolders(disk)
        self.stored_offsets = StoredOffsets(disk)
        self.producer_budget = ProducerBudget()
        self.open_failures: dict[TopicPartition, OpenFailure] = {}  # in the order of the last attempts
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get(TopicPartition(topic, index))

    def by_id(self, topic_id: UUID, index: int) -> Partition | None:
        return self._by_id.get((topic_id, index))

    def names_of(self, topic_id: UUID) -> list[TopicPartition]:
        """All partitions of a topic, including those that could not be opened."""
        opened = [partition.name for partition in self if partition.topic_id == topic_id]
        return opened + [name for name, failure in self.open_failures.items() if failure.topic_id == topic_id]

    def open(
        self, name: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, settings: Mapping[str, str]
    ) -> Partition | None:
        """Open or create the log of one partition. If that fails, log an error and return None."""
        producers = Producers(self.producer_budget)
        directory = str(name)
        has_failed_before = name in self.open_failures
        try:
            self.folders.claim_folder(directory, topic_id, lambda: self.stored_offsets.remove(name))
            opened = Log.open(
                self._disk,
                directory,
                LogConfig.from_settings(settings),
                now_ms=self._clock.wall_ms(),
                clean=self.is_clean and not has_failed_before,
                recovery_point=self.stored_offsets.get(RECOVERY_POINTS, name),
                start_offset=self.stored_offsets.get(LOG_STARTS, name),
                observer=producers,
            )
            self.stored_offsets.remove_above(name, opened.end_offset)
            if opened.config.flush_messages == 1 and opened.flushed_offset < opened.end_offset:
                opened.sync()  # after a crash, data in the page cache must be durable before readers see it
        except (OSError, LogFault) as fault:
            producers.clear()
            self._note_failure(name, topic_id, fault)
            return None
        except Exception as fault:
            producers.clear()
            log.exception("a partition could not be opened", extra={"partition": directory})
            self._note_failure(name, topic_id, fault)
            return None
        if has_failed_before:
            del self.open_failures[name]
            log.info("partition online again", extra={"partition": directory})
        _log_recovery(directory, opened.recovery)
        partition = Partition(name, topic_id, opened, producers, leader_epoch, self._flusher.request_sync)
        partition.cleaned_to = self.stored_offsets.get(CLEANER_OFFSETS, name)
        if not opened.size_bytes:
            partition.appender.before_first_append = partial(self.folders.write_topic_id, directory, topic_id)
        self._partitions[name] = self._by_id[topic_id, name.partition] = partition
        return partition

    def _note_failure(self, name: TopicPartition, topic_id: UUID, fault: Exception) -> None:
        reason = str(fault)
        before = self.open_failures.pop(name, None)
        is_retryable = isinstance(fault, OSError) and fault.errno in RETRYABLE_ERRNOS
        self.open_failures[name] = OpenFailure(topic_id, reason, is_retryable)
        if before is None or before.reason != reason:  # log each reason once, however often the open is retried
            log.error("partition offline", extra={"partition": str(name), "reason": reason})

    def retryable_failures(self) -> list[tuple[TopicPartition, UUID]]:
        """Partitions that another `open` may bring online, in the order of the last attempts."""
        return [(name, failure.topic_id) for name, failure in self.open_failures.items() if failure.is_retryable]

    def remove(self, name: TopicPartition) -> None:
        """Remove a partition of a deleted topic. Its folder is renamed now; the retention sweep removes it."""
        partition = self._partitions.pop(name, None)
        failure = self.open_failures.pop(name, None)
        if partition is not None:
            topic_id = partition.topic_id
            del self._by_id[topic_id, name.partition]
            partition.stop_leading("the topic was deleted")
            partition.producers.clear()
            self._flusher.wait_for_sync(partition)
        elif failure is not None:
            topic_id = failure.topic_id
        else:
            return
        self.stored_offsets.drop(name)
        try:
            if self._disk.exists(str(name)):
                self.folders.mark_deleted(str(name), topic_id)
        except OSError as fault:  # the next start marks it as a stray
            log.error("folder of a deleted topic not renamed", extra={"partition": str(name), "reason": str(fault)})

    def mark_strays(self) -> None:
        """Rename the folders that belong to no known partition, so that no future topic takes them over."""
        self.folders.mark_strays(self._is_known, self._clock.wall_ms())

    def _is_known(self, topic: str, index: int) -> bool:
        name = TopicPartition(topic, index)
        return topic == METADATA_TOPIC or name in self._partitions or name in self.open_failures


def _log_recovery(directory: str, recovery: RecoveryReport) -> None:
    """One line for a log that was not closed cleanly; a warning if data was cut or is missing."""
    if not recovery.clean:
        values = ((field.name, getattr(recovery, field.name)) for field in fields(recovery))
        found = {name: value for name, value in values if value and name != "clean"}
        if not found:
            return  # the log is new or was empty
        level = logging.WARNING if recovery.cut_bytes or recovery.missing_offsets else logging.INFO
        log.log(level, "log recovered", extra={"partition": directory, **found})
