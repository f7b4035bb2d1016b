"""Shell over a store: this broker's copy of one partition, without its role: the log, and the requests that wait.

`Partition` adds the role. It moves the high watermark, and says when waiting requests fail.
"""

from __future__ import annotations

from uuid import UUID

from mqcore.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.appender import Appender
from mqcore.partitions.log_view import acknowledged_end
from mqcore.partitions.producers import Producers
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
from mqcore.wire.errors import ErrorCode, Refusal


class LocalCopy:
    def __init__(
        self, name: TopicPartition, topic_id: UUID, log: Log, producers: Producers, high_watermark: int
    ) -> None:
        self.name = name
        self.topic, self.index = name
        self.topic_id = topic_id
        self.log = log
        self.producers = producers
        self.appender = Appender(log, producers)
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.leads = False
        self.high_watermark = Offset(min(high_watermark, log.end_offset))
        self.watchers = Watchers()  # of the high watermark: consumers can read more
        self.append_watchers = Watchers()  # of the log's end: followers can copy more
        self.offline_reason: str | None = None
        self.cleaned_to = 0  # compaction is done below this offset
        self.cuts = 0  # how often the log was cut; a compaction that began before must stop
        self._stopped: NotLeader | StorageFault | None = NotLeader("this broker has no role in the partition yet")
        self._acknowledgements = Acknowledgements()
        self._durable = CommitQueue()
        self._deleted = CommitQueue()  # by the low watermark
        self._cache_settings(log.config)

    def request_sync(self) -> None:
        """Sync the log soon; then `on_synced` is called."""
        raise NotImplementedError

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
    def log_start_epoch(self) -> int:
        """The leader epoch of the first record, or −1."""
        return self.log.epochs.epoch_at(self.log.start_offset)

    @property
    def acknowledges_durable_only(self) -> bool:
        """Whether acknowledgements wait for a sync (`flush.messages=1`)."""
        return self._durable_only

    @property
    def allows_record_deletion(self) -> bool:
        """False for a topic that is only compacted: it keeps the last record of each key."""
        return self.log.config.delete

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

    def reconfigure(self, config: LogConfig) -> None:
        self.log.reconfigure(config)
        self.appender.reconfigure(config)
        self._cache_settings(config)

    def _cache_settings(self, config: LogConfig) -> None:
        """Copy what every append needs into attributes, because the append is the hot path."""
        self._durable_only = config.flush_messages == 1
        self._flush_messages = config.flush_messages

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def is_acknowledged(self, end: Offset, acks: int) -> bool:
        """Whether everything below `end` is kept as `acks` demands: on this replica, or on all in-sync ones (-1)."""
        if acks == ALL_REPLICAS:
            return end <= self.high_watermark
        return end <= acknowledged_end(self.log, durable_only=self._durable_only)

    def when_acknowledged(self, end: Offset, acks: int, on_commit: OnCommit) -> None:
        """Call `on_commit` once `is_acknowledged`, or once it never will be. May call it immediately."""
        if self._stopped is not None:
            on_commit(self._stopped)
        elif self.is_acknowledged(end, acks):
            on_commit(COMMITTED)
        else:
            self._acknowledgements.add(acks, end, on_commit)

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self.when_acknowledged(end, ALL_REPLICAS, on_commit)

    def when_durable(self, on_durable: OnCommit) -> None:
        """Sync everything appended so far, whatever the topic's settings, then call `on_durable`."""
        if self.offline_reason is not None:
            on_durable(self._stopped or StorageFault(self.offline_reason))
        elif self.log.flushed_offset >= self.log.end_offset:
            on_durable(COMMITTED)
        else:
            self._durable.add(Offset(self.log.end_offset), on_durable)
            self.request_sync()

    def _fail_waiting(self, outcome: NotLeader | StorageFault) -> None:
        """The offsets that requests wait for may be given to other records."""
        self._stopped = outcome
        for waiting in (self._acknowledgements, self._durable, self._deleted):
            waiting.fail(outcome)
        self.watchers.notify()
        self.append_watchers.notify()
