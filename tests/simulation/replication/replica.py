"""One copy of a partition: a real log on a simulated disk, its role, and the requests that wait for it.

It carries out what the machines decide, as `Partition` will, and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from mqcore.partitions.appender import Appender
from mqcore.partitions.follower import Append, FollowerState, StartAt, Step, Truncate
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.producers import Producers
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReplicaFetch
from mqcore.partitions.terms import Moved, Proposal, Term
from mqcore.partitions.waiting_requests import Acknowledgements, CommitOutcome, Committed, NotLeader
from mqcore.wire.batches import read_header
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fetch import FetchedPartition
from tests.simulation.replication.records import GONE, WALL_MS, RecordId, open_or_cut, read_content, record_ids

FETCH_BYTES_MAX = 1 << 16
PARKED_MS = 150

Reply = Callable[[FetchedPartition], None]


class Produced(NamedTuple):
    error: ErrorCode
    base_offset: int = -1


@dataclass(frozen=True)
class Parts:
    """The machines that a replica is made of. A seeded bug replaces one of them."""

    leader: type[LeaderState] = LeaderState
    follower: type[FollowerState] = FollowerState
    acknowledgements: type[Acknowledgements] = Acknowledgements
    producers: type[Producers] = Producers


class Owner(Protocol):
    """What a replica needs of its broker."""

    id: BrokerId
    broker_epoch: int

    def now(self) -> Millis: ...

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> None: ...

    def is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool: ...

    def propose(self, replica: Replica, proposal: Proposal) -> None: ...

    def sync_ms(self) -> int: ...

    def acknowledges(self, replica: Replica, number: int, offset: int) -> None: ...

    def moved(self, replica: Replica) -> None:
        """The log, the high watermark or the role has changed."""
        ...


class Replica:
    def __init__(
        self,
        owner: Owner,
        name: TopicPartition,
        disk: MemoryDisk,
        high_watermark: int,
        rules: LeaderRules,
        parts: Parts,
    ) -> None:
        self.name = name
        self.rules = rules
        self.parts = parts
        self.role: LeaderState | FollowerState | None = None
        self.leader_epoch = LeaderEpoch(-1)
        self._owner = owner
        self.producers = parts.producers()
        self.log = open_or_cut(disk, name, self.producers)
        if rules.durable_only and self.log.flushed_offset < self.log.end_offset:
            self.log.sync()
        self.appender = Appender(self.log, self.producers)
        self.acknowledgements = parts.acknowledgements()
        self.high_watermark = Offset(min(high_watermark, self.log.end_offset))
        self.content: list[RecordId] = self.read_content()  # by offset
        self.agreed = 0  # how far the test has compared it with what is committed
        self._is_syncing = False
        self._is_removed = False
        self._parked: list[tuple[ReplicaFetch, Reply]] = []

    # ── roles ────────────────────────────────────────────────────────────────────────────────────

    def lead(self, term: Term) -> None:
        self._end_term()
        self.leader_epoch = term.leader_epoch
        self.log.epochs.begin(term.leader_epoch, self.log.end_offset)
        self.role = self.parts.leader(
            self._owner.id,
            self._owner.broker_epoch,
            term,
            self.log,
            self.high_watermark,
            self._owner.is_eligible,
            self.rules,
            self._owner.now(),
        )
        self._after(self.role.log_moved())

    def follow(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        self._end_term()
        self.leader_epoch = leader_epoch
        self.log.epochs.truncate_end(self.log.end_offset)
        self.role = self.parts.follower(
            self._owner.id, self._owner.broker_epoch, leader, leader_epoch, durable_only=self.rules.durable_only
        )

    def stand_down(self, leader_epoch: LeaderEpoch) -> None:
        self._end_term()
        self.leader_epoch, self.role = leader_epoch, None

    def remove(self) -> None:
        self.stand_down(self.leader_epoch)
        self._is_removed = True

    def _end_term(self) -> None:
        self.acknowledgements.fail(NotLeader("the term is over"))
        parked, self._parked = self._parked, []
        for _, reply in parked:
            reply(FetchedPartition(self.name.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def learned(self, term: Term) -> None:
        if isinstance(self.role, LeaderState):
            self._after(self.role.learned(term, self._owner.now()))

    def tick(self) -> None:
        """Call the leader exactly when it has asked for it, so that a wrong deadline shows."""
        role, now = self.role, self._owner.now()
        if isinstance(role, LeaderState):
            due = role.deadline()
            if due is not None and now >= due:
                self._after(role.tick(now))

    def _after(self, moved: Moved) -> None:
        role = self.role
        assert isinstance(role, LeaderState)
        role.check()
        self.high_watermark = moved.high_watermark
        self._owner.moved(self)
        if moved.proposal is not None:
            self._owner.propose(self, moved.proposal)
        local_end = self.log.flushed_offset if self.rules.durable_only else self.log.end_offset
        self.acknowledgements.release(local_end, moved.high_watermark)

    def settled(self, settle: Callable[[LeaderState], Moved]) -> None:
        if isinstance(self.role, LeaderState):
            self._after(settle(self.role))

    # ── producing and consuming ──────────────────────────────────────────────────────────────────

    def produce(self, batch: memoryview, acks: int, reply: Callable[[Produced], None]) -> None:
        role = self.role
        if not isinstance(role, LeaderState):
            reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        if acks == -1 and not role.has_enough_replicas:
            reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        number = read_header(batch).base_timestamp - WALL_MS
        appended = self.appender.append(batch, self.leader_epoch, WALL_MS)
        if isinstance(appended, Refusal):
            reply(Produced(appended.error))
            return

        def on_commit(outcome: CommitOutcome) -> None:
            if not isinstance(outcome, Committed):
                reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif acks == -1 and not role.has_enough_replicas:
                reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            else:
                self._owner.acknowledges(self, number, appended.base_offset)
                reply(Produced(ErrorCode.NONE, appended.base_offset))

        self.acknowledgements.add(acks, appended.end, on_commit)
        if not appended.is_duplicate:
            self._note_appended(bytes(batch))
            self._request_sync()
            self._wake_parked()
        self._after(role.log_moved())

    def visible_end(self) -> int:
        """Consumers read below it."""
        return self.high_watermark

    def consume(self, offset: int, leader_epoch: int) -> FetchedPartition:
        index = self.name.partition
        if not isinstance(self.role, LeaderState) or leader_epoch != self.leader_epoch:
            return FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if offset > self.log.end_offset:
            return FetchedPartition(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchedPartition(index, 0, self.high_watermark, records=self._read(offset, self.visible_end()))

    def _read(self, offset: int, limit: int) -> bytes:
        found = self.log.read(offset, FETCH_BYTES_MAX, limit=limit)
        return b"" if found is None else found.read()

    # ── serving followers ────────────────────────────────────────────────────────────────────────

    def serve(self, fetch: ReplicaFetch, reply: Reply) -> None:
        index, role = self.name.partition, self.role
        if not isinstance(role, LeaderState):
            reply(FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        outcome = role.fetched(fetch, self._owner.now())
        role.check()
        match outcome:
            case LeaderEpochMismatch(error, _):
                reply(FetchedPartition(index, error))
            case Refusal(error):
                reply(FetchedPartition(index, error, log_start_offset=self.log.start_offset))
            case Divergence():
                reply(FetchedPartition(index, diverging_epoch=outcome))
            case _:
                self._after(outcome)
                if fetch.offset < self.log.end_offset:
                    self._serve_records(fetch, reply)
                else:
                    parked = (fetch, reply)
                    self._parked.append(parked)
                    self._owner.later(PARKED_MS, "parked", lambda: self._unpark(parked))

    def _serve_records(self, fetch: ReplicaFetch, reply: Reply) -> None:
        high_watermark, start = self.high_watermark, self.log.start_offset
        records = self._read(fetch.offset, self.log.end_offset)
        reply(FetchedPartition(self.name.partition, 0, high_watermark, high_watermark, start, records))

    def _unpark(self, parked: tuple[ReplicaFetch, Reply]) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            self._serve_records(*parked)

    def _wake_parked(self) -> None:
        parked, self._parked = self._parked, []
        for fetch, reply in parked:
            self._serve_records(fetch, reply)

    # ── following ────────────────────────────────────────────────────────────────────────────────

    def carry_out(self, step: Step) -> None:
        log = self.log
        match step:
            case Append(records, headers, high_watermark, log_start, restart_at):
                if restart_at is not None:
                    log.truncate_fully(restart_at)
                    self._note_cut()
                if headers:
                    log.append(records, headers, WALL_MS)
                    self._note_appended(bytes(records))
                    self._request_sync()
                self.high_watermark = max(self.high_watermark, high_watermark)
                log.advance_start(log_start)
            case Truncate(end):
                log.truncate_to(end)
                self._note_cut()
            case StartAt(log_start):
                log.truncate_fully(log_start)
                self._note_cut()
            case _:
                pass
        self._owner.moved(self)

    def _note_cut(self) -> None:
        self.high_watermark = Offset(min(self.high_watermark, self.log.end_offset))
        del self.content[self.log.end_offset :]
        self.content += [GONE] * (self.log.end_offset - len(self.content))
        self.agreed = min(self.agreed, len(self.content))

    # ── the disk ─────────────────────────────────────────────────────────────────────────────────

    def _request_sync(self) -> None:
        if self.rules.durable_only and not self._is_syncing:
            self._is_syncing = True
            self._owner.later(self._owner.sync_ms(), f"sync {self.name}", self.sync)

    def sync(self) -> None:
        self._is_syncing = False
        if self._is_removed:
            return
        self.log.sync()
        if isinstance(self.role, LeaderState):
            self._after(self.role.log_moved())

    # ── what the test compares ───────────────────────────────────────────────────────────────────

    def _note_appended(self, records: bytes) -> None:
        for found in record_ids(records):
            self.content.append(found)
        assert len(self.content) == self.log.end_offset

    def read_content(self) -> list[RecordId]:
        """Every record of the log, read back from its files."""
        return read_content(self.log)
