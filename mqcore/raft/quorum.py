"""Shell: this node's part of the metadata quorum.

To the observer and the controller's journal it looks like a partition: a log, a watermark, and records to append.

Own rule: at most one batch is not durable. What is appended meanwhile is collected, and follows at once after the sync.
Nothing else is decided in between, so the offsets that were promised hold.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from mqcore.disk.port import Disk
from mqcore.host import Clock, Threads
from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.log.errors import LogFault
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.waiting_requests import (
    COMMITTED,
    CommitQueue,
    NotLeader,
    NotLeading,
    OnCommit,
    StorageFault,
    Watchers,
)
from mqcore.raft import founding
from mqcore.raft.collected import CollectedRecords
from mqcore.raft.description import FetchTimes, QuorumDescription
from mqcore.raft.driver import OnAnswer, Send, VoterDriver
from mqcore.raft.messages import FetchRequest, Request, SnapshotId, VoterKey
from mqcore.raft.quorum_file import QuorumFile
from mqcore.raft.quorum_log import FOLDER, LOG_CONFIG, QuorumLog
from mqcore.raft.ready import Adopt, LogMoved, QuorumRules, Received, Resign
from mqcore.raft.snapshot_writer import SnapshotWriter
from mqcore.raft.state import NO_ELECTION, Leader, QuorumState
from mqcore.raft.view import Random
from mqcore.raft.voter import Voter
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record

log = logging.getLogger(__name__)

NOT_LEADING = "this node does not lead the metadata quorum"


class Quorum:
    """`request_sync` syncs the log on a thread and then calls `on_synced` or `go_offline`, as `Flusher` does.
    `on_failure` is called when the disk has failed: the process must stop."""

    acknowledges_durable_only = True

    def __init__(
        self,
        me: VoterKey,
        rules: QuorumRules,
        disk: Disk,
        clock: Clock,
        threads: Threads,
        random: Random,
        send: Send,
        request_sync: Callable[[Quorum], None],
        on_failure: Callable[[Exception], None],
        *,
        is_clean: bool = False,
        log_config: LogConfig = LOG_CONFIG,
    ) -> None:
        """`is_clean`: the log was closed cleanly, so it needs no verification. Raises `UnusableFolder`, `LogFault`,
        `BadQuorumFile`, `DamagedSnapshot` or `BadBatch` if the folder cannot be used."""
        self.me = me
        self.name = FOLDER
        self.watchers = Watchers()
        self.offline_reason: str | None = None
        self.lost_nodes: Callable[[], Iterable[BrokerId]] = tuple
        """The voters that this node cannot reach."""
        self._clock = clock
        self._request_sync = request_sync
        self._on_failure = on_failure
        now = clock.now()
        is_only_voter = rules.node_ids == {me.id}
        founding.prepare_folder(disk, me, now.wall_ms, is_only_voter=is_only_voter)
        self._store = store = QuorumLog(disk, now.wall_ms, log_config, is_clean=is_clean, is_only_voter=is_only_voter)
        self.log = store.log
        file = QuorumFile(disk, str(FOLDER))
        kept = file.read()
        if kept == NO_ELECTION and is_only_voter:  # a log from before there was a quorum has an epoch already
            kept = NO_ELECTION._replace(epoch=LeaderEpoch(max(0, store.last_epoch)))
        self._voter = Voter(me, rules, random, kept, self._committed_at_start(), now.monotonic_ms)
        self._driver = VoterDriver(
            self._voter, store, file, clock, send, rules.retry_ms, self._after_step, self._on_disk_failure
        )
        self._snapshots = SnapshotWriter(store, clock, threads)
        self._collected = CollectedRecords()
        self._waiting = CommitQueue()
        self._times = FetchTimes()
        self._is_syncing = False

    def _committed_at_start(self) -> int:
        """What the only voter has durably is committed. Other nodes know only of their snapshot."""
        store = self._store
        if store.voters == {self.me.id: self.me} and store.durable >= store.suspect_to:
            return store.durable
        return 0 if store.snapshot is None else store.snapshot.end

    # ── state ────────────────────────────────────────────────────────────────────────────────────

    @property
    def high_watermark(self) -> Offset:
        return Offset(self._voter.high_watermark)

    @property
    def leader(self) -> BrokerId | None:
        return self._voter.leader if self.offline_reason is None else None

    @property
    def leads(self) -> bool:
        return self.offline_reason is None and isinstance(self._voter.state.role, Leader)

    @property
    def is_active(self) -> bool:
        """Whether this node leads and a record of its epoch is committed. Then its log has everything committed."""
        return self.offline_reason is None and self._voter.is_active()

    @property
    def epoch(self) -> LeaderEpoch:
        return self._voter.epoch

    @property
    def is_offline(self) -> bool:
        return self.offline_reason is not None

    def describe(self) -> QuorumDescription:
        role, now_ms = self._voter.state.role, self._clock.wall_ms()
        leading = role if isinstance(role, Leader) else None
        voters, observers = self._times.describe(self.me, self._store.end, leading, self._store.voters, now_ms)
        return QuorumDescription(self.leader, self.epoch, self.high_watermark, voters, observers)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """The only voter leads when this returns, and is active after the next sync."""
        self._driver.start()

    def resign(self) -> None:
        """If this node leads, let another voter lead."""
        self._driver.handle(Resign())

    def go_offline(self, reason: str) -> None:
        """Take no further part until the broker restarts."""
        if self.offline_reason is None:
            log.error("metadata quorum offline", extra={"reason": reason})
            self._stop(reason)

    def close(self) -> None:
        """Flush and close the log. Raises `OSError` or `LogFault`."""
        if self.offline_reason is None:
            self._stop("the broker has stopped")
        self._snapshots.close()
        self.log.close()

    def _stop(self, reason: str) -> None:
        self.offline_reason = reason
        self._collected.clear()
        self._waiting.fail(StorageFault(reason))
        self._driver.stop()
        self.watchers.notify()

    def _on_disk_failure(self, fault: Exception) -> None:
        self.go_offline(str(fault))
        self._on_failure(fault)

    # ── other nodes ──────────────────────────────────────────────────────────────────────────────

    def receive(self, request: Request, on_answer: OnAnswer) -> None:
        """`on_answer` is called exactly once, now or later."""
        if isinstance(request, FetchRequest):
            self._times.note(request, self._store.end, self._clock.wall_ms())
        self._driver.ask(lambda ticket: Received(ticket, request), on_answer)

    def adopt(self, key: VoterKey, on_answer: OnAnswer) -> None:
        """Let a node that has lost its folder vote again, with the directory id of its new one."""
        self._driver.ask(lambda ticket: Adopt(ticket, key), on_answer)

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def append_records(self, records: Sequence[Record], limit_bytes: int = OWN_BATCH_BYTES_MAX) -> Offset:
        """Append records of the controller, or collect them. Returns the end that they have or will have.

        Raises `NotLeading`, `BatchTooLarge`, or `OSError` if they cannot be written. Nothing has changed then, but
        another voter leads soon, if there is one: it may have room."""
        if self.offline_reason is not None:
            raise OSError(errno.EIO, self.offline_reason)
        if not self.leads:
            raise NotLeading(NOT_LEADING)
        if self._collected.count or not self._voter.may_append(self._store):
            self._collected.add(records, limit_bytes)
            return Offset(self._store.end + self._collected.count)
        try:
            end = self._append(records, limit_bytes)
        except OSError:
            if len(self._store.voters) > 1:
                self._clock.call_soon(self.resign)  # not now, because the caller is in the middle of a decision
            raise
        self._driver.handle(LogMoved())
        return end

    def _append(self, records: Sequence[Record], limit_bytes: int = OWN_BATCH_BYTES_MAX) -> Offset:
        try:
            return Offset(self._store.append_records(records, self.epoch, self._clock.wall_ms(), limit_bytes))
        except LogFault as fault:
            self._on_disk_failure(fault)
            raise OSError(errno.EIO, str(fault)) from fault

    def _append_collected(self) -> None:
        """If they cannot be written, the leader resigns, because their callers rely on the promised offsets."""
        if not self._collected.count or not self._voter.may_append(self._store):
            return
        try:
            self._append(self._collected.take())
        except OSError as fault:
            self._collected.clear()
            self._waiting.fail(StorageFault(str(fault)))
            self._driver.handle(Resign())

    def on_synced(self) -> None:
        """More of the log is durable. What was collected is appended before anything else is decided."""
        self._is_syncing = False
        if self.offline_reason is not None:
            return
        try:
            self._store.end_suspicion()
        except OSError as fault:  # the next sync tries again
            log.error("the mark of a cut log could not be removed", extra={"reason": str(fault)})
        self._append_collected()
        self._driver.handle(LogMoved())

    # ── the commit ───────────────────────────────────────────────────────────────────────────────

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        """Call `on_commit` once everything below `end`, which this leader has appended, is committed or may be lost."""
        if end <= self.high_watermark:
            on_commit(COMMITTED)
        elif self.offline_reason is not None:
            on_commit(StorageFault(self.offline_reason))
        elif not self.leads:
            on_commit(NotLeader(NOT_LEADING))
        else:
            self._waiting.add(end, on_commit)

    def _after_step(self, before: QuorumState) -> None:
        after = self._voter.state
        if isinstance(before.role, Leader) and not isinstance(after.role, Leader):
            self._collected.clear()
            self._waiting.fail(NotLeader(NOT_LEADING))
        if after.alarm is not None:
            self.go_offline(after.alarm)
            return
        if self._store.durable < self._store.end and not self._is_syncing:
            self._is_syncing = True
            self._request_sync(self)
        if _visible(after) != _visible(before):
            self.watchers.notify()
            self._waiting.release(after.high_watermark)

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest one. Everything below its end is only there."""
        return self._store.snapshot

    @property
    def bytes_since_snapshot(self) -> int:
        return self._store.bytes_since_snapshot

    def read_snapshot(self) -> Iterator[bytes]:
        """The values of its records. Raises `DamagedSnapshot`."""
        assert self.snapshot is not None
        for record in self._store.snapshots.read(self.snapshot).records:
            yield record.value or b""

    def write_snapshot(self, end: Offset, values: Iterable[bytes]) -> None:
        """Replace the log below `end`, which is committed. `values` are read on a thread."""
        if self.offline_reason is None:
            self._snapshots.write(end, values)


def _visible(state: QuorumState) -> tuple[object, ...]:
    """What watchers are told of."""
    return state.election, type(state.role), state.high_watermark
