"""Shell: the partitions whose logs this broker has, from opening a folder to deleting it.

Own rule: a fault of one partition never prevents the others from being opened or served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, wait
from functools import partial
from typing import NamedTuple
from uuid import UUID

from mqcore.disk.port import Disk
from mqcore.host import Clock
from mqcore.identity import METADATA_TOPIC, TopicPartition
from mqcore.log.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from mqcore.log.errors import RETRYABLE_ERRNOS, LogFault
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.folders import PartitionFolders
from mqcore.partitions.opening import Opening, log_recovery
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import ProducerBudget, Producers
from mqcore.partitions.stored_offsets import StoredOffsets
from mqcore.partitions.terms import Proposal

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
        self._being_opened: dict[TopicPartition, tuple[Opening, Future[Log]]] = {}  # on threads
        self.on_proposal: Callable[[Partition, Proposal], None] = lambda partition, proposal: None
        """Sends a leader's proposal for another ISR to the controller."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def copied(self) -> Iterator[Partition]:
        """The partitions that other brokers have, too."""
        return (partition for partition in self if not partition.is_only_replica)

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get(TopicPartition(topic, index))

    def by_id(self, topic_id: UUID, index: int) -> Partition | None:
        return self._by_id.get((topic_id, index))

    def names_of(self, topic_id: UUID) -> list[TopicPartition]:
        """All partitions of a topic, including those that could not be opened, or not yet."""
        opened = [partition.name for partition in self if partition.topic_id == topic_id]
        opened += [name for name, (opening, _) in self._being_opened.items() if opening.topic_id == topic_id]
        return opened + [name for name, failure in self.open_failures.items() if failure.topic_id == topic_id]

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def open(self, name: TopicPartition, topic_id: UUID, settings: Mapping[str, str]) -> Partition | None:
        """Open or create the log of one partition, which then waits for its role. If that fails, log an error and
        return None."""
        try:
            opening = self._prepare(name, topic_id, settings)
            return self._install(opening, opening.run())
        except Exception as fault:
            self._note_failure(name, topic_id, fault)
            return None

    def open_on(
        self,
        threads: Executor,
        name: TopicPartition,
        topic_id: UUID,
        settings: Mapping[str, str],
        on_opened: Callable[[Partition | None], None],
    ) -> None:
        """Like `open`, but read the log on a thread. `on_opened` is not called if the partition is removed before."""
        try:
            opening = self._prepare(name, topic_id, settings)
        except Exception as fault:
            self._note_failure(name, topic_id, fault)
            on_opened(None)
            return
        future = threads.submit(opening.run)
        self._being_opened[name] = opening, future

        def finish(done: asyncio.Future[Log]) -> None:
            if self._being_opened.get(name) != (opening, future):
                return
            del self._being_opened[name]
            partition = None
            try:
                partition = self._install(opening, done.result())
            except Exception as fault:
                self._note_failure(name, topic_id, fault)
            on_opened(partition)

        asyncio.wrap_future(future).add_done_callback(finish)

    def _prepare(self, name: TopicPartition, topic_id: UUID, settings: Mapping[str, str]) -> Opening:
        stored = self.stored_offsets
        self.folders.claim_folder(str(name), topic_id, lambda: stored.remove(name))
        return Opening(
            self._disk,
            name,
            topic_id,
            LogConfig.from_settings(settings),
            self._clock.wall_ms(),
            self.is_clean and name not in self.open_failures,
            stored.get(RECOVERY_POINTS, name),
            stored.get(LOG_STARTS, name),
            stored.get(HIGH_WATERMARKS, name),
            Producers(),
        )

    def _install(self, opening: Opening, opened: Log) -> Partition:
        name, topic_id, producers = opening.name, opening.topic_id, opening.producers
        directory = str(name)
        self.stored_offsets.remove_above(name, opened.end_offset)
        if self.open_failures.pop(name, None) is not None:
            log.info("partition online again", extra={"partition": directory})
        log_recovery(directory, opened.recovery)
        producers.join(self.producer_budget)
        partition = Partition(
            name,
            topic_id,
            opened,
            producers,
            self._flusher.request_sync,
            high_watermark=opening.high_watermark,
            propose=self._propose,
            before_cut=partial(self.stored_offsets.remove_above, name),
        )
        partition.cleaned_to = self.stored_offsets.get(CLEANER_OFFSETS, name)
        if not opened.size_bytes:
            partition.appender.before_first_append = partial(self.folders.write_topic_id, directory, topic_id)
        self._partitions[name] = self._by_id[topic_id, name.partition] = partition
        return partition

    def _propose(self, partition: Partition, proposal: Proposal) -> None:
        self.on_proposal(partition, proposal)

    def _note_failure(self, name: TopicPartition, topic_id: UUID, fault: Exception) -> None:
        if not isinstance(fault, OSError | LogFault):
            log.error("a partition could not be opened", exc_info=fault, extra={"partition": str(name)})
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
        being_opened = self._being_opened.pop(name, None)
        if partition is not None:
            topic_id = partition.topic_id
            del self._by_id[topic_id, name.partition]
            partition.stand_down("the topic was deleted")
            partition.producers.clear()
            self._flusher.wait_for_sync(partition)
        elif failure is not None:
            topic_id = failure.topic_id
        elif being_opened is not None:
            topic_id = being_opened[0].topic_id
            _close_when_opened(being_opened[1])
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
        is_hosted = name in self._partitions or name in self.open_failures or name in self._being_opened
        return is_hosted or topic == METADATA_TOPIC


def _close_when_opened(future: Future[Log]) -> None:
    """Wait for the thread. The caller is about to rename the folder."""
    wait((future,))
    if future.exception() is None:
        future.result().segments.close()
