"""One copy of a partition: the broker's own `Partition` and log on a simulated disk, and what clients ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from mqcore.partitions.follower import FollowerState, Step
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER, Moved, Proposal, Term
from mqcore.partitions.waiting_requests import Acknowledgements, CommitOutcome, Committed
from mqcore.wire.batches import BatchHeader, read_header
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fetch import FetchedPartition
from tests.simulation.replication.records import GONE, WALL_MS, RecordId, ids_of, open_or_cut, read_content

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
    """Keeps what the log has at each offset, so that the test can compare it with what is committed."""

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
        self._owner = owner
        self.content: list[RecordId] = []  # by offset
        self.agreed = 0  # how far the test has compared it with what is committed
        producers = self._observed(parts.producers)
        self.log = open_or_cut(disk, name, producers, durable_only=rules.durable_only)
        if rules.durable_only and self.log.flushed_offset < self.log.end_offset:
            self.log.sync()
        self.partition = Partition(
            name,
            UUID(int=0),
            self.log,
            producers,
            lambda partition: self._request_sync(),
            high_watermark=high_watermark,
            propose=lambda partition, proposal: owner.propose(self, proposal),
        )
        self.partition.leader_type, self.partition.follower_type = parts.leader, parts.follower
        self.partition._acknowledgements = self._reported(parts.acknowledgements)
        self.partition.append_watchers.add(self, self._wake_parked)
        self.content = self.read_content()
        self._is_syncing = False
        self._is_removed = False
        self._parked: list[tuple[ReplicaFetch, Reply]] = []

    def _observed(self, producers: type[Producers]) -> Producers:
        """The log tells its producers' state of each batch: of new ones, and again after a cut."""
        replica = self

        class Observed(producers):  # type: ignore[misc, valid-type]
            def observe(self, header: BatchHeader) -> None:
                super().observe(header)
                if hasattr(replica, "partition") and header.base_offset >= replica.log.end_offset:
                    replica._note_length(header.base_offset)
                    replica.content += ids_of(header)

        return Observed()

    def _reported(self, acknowledgements: type[Acknowledgements]) -> Acknowledgements:
        """The test learns what is committed before any request is answered."""
        replica = self

        class Reported(acknowledgements):  # type: ignore[misc, valid-type]
            def release(self, local_end: int, high_watermark: int) -> None:
                replica._note_moved()
                super().release(local_end, high_watermark)

        return Reported()

    def _note_length(self, end: int) -> None:
        del self.content[end:]
        self.content += [GONE] * (end - len(self.content))
        self.agreed = min(self.agreed, len(self.content))

    def _note_moved(self) -> None:
        if isinstance(self.role, LeaderState):
            self.role.check()
        self._note_length(self.log.end_offset)
        self._owner.moved(self)

    # ── the partition ────────────────────────────────────────────────────────────────────────────

    @property
    def role(self) -> LeaderState | FollowerState | None:
        return self.partition.role

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.partition.leader_epoch

    @property
    def high_watermark(self) -> Offset:
        return self.partition.high_watermark

    def _membership(self) -> Membership:
        return Membership(self._owner.id, self._owner.broker_epoch, self._owner.is_eligible, self.rules)

    def lead(self, term: Term) -> None:
        self.partition.lead(term, self._membership(), self._owner.now())

    def follow(self, term: Term) -> None:
        self.partition.follow(term, self._membership())

    def stand_down(self) -> None:
        """Wait for the next term."""
        if self.partition.term is not None:
            self.follow(replace(self.partition.term, leader=NO_LEADER))

    def remove(self) -> None:
        self.partition.stand_down("the topic was deleted")
        self._is_removed = True

    def learned(self, term: Term) -> None:
        if isinstance(self.role, LeaderState):
            self.lead(term)
        else:
            self.follow(term)

    def tick(self) -> None:
        """Call the leader exactly when it has asked for it, so that a wrong deadline shows."""
        role, now = self.role, self._owner.now()
        due = role.deadline() if isinstance(role, LeaderState) else None
        if due is not None and now >= due:
            self.settled(lambda leader: leader.tick(now))

    def settled(self, settle: Callable[[LeaderState], Moved]) -> None:
        self.partition.inform_leader(settle)

    # ── producing and consuming ──────────────────────────────────────────────────────────────────

    def produce(self, batch: memoryview, acks: int, reply: Callable[[Produced], None]) -> None:
        partition = self.partition
        if acks == -1 and partition.leads and not partition.has_enough_replicas:
            reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        number = read_header(batch).base_timestamp - WALL_MS
        appended = partition.append(batch, WALL_MS)
        if isinstance(appended, Refusal):
            reply(Produced(appended.error))
            return

        def on_commit(outcome: CommitOutcome) -> None:
            if not isinstance(outcome, Committed):
                reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif acks == -1 and not partition.has_enough_replicas:
                reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            else:
                self._owner.acknowledges(self, number, appended.base_offset)
                reply(Produced(ErrorCode.NONE, appended.base_offset))

        partition._acknowledgements.add(acks, appended.end, on_commit)
        partition.inform_leader(LeaderState.log_moved)

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
        index = self.name.partition
        match self.partition.fetched(fetch, self._owner.now()):
            case LeaderEpochMismatch(error, _):
                reply(FetchedPartition(index, error))
            case Refusal(error):
                reply(FetchedPartition(index, error, log_start_offset=self.log.start_offset))
            case Divergence() as divergence:
                reply(FetchedPartition(index, diverging_epoch=divergence))
            case None if fetch.offset < self.log.end_offset:
                self._serve_records(fetch, reply)
            case None:
                parked = (fetch, reply)
                self._parked.append(parked)
                self._owner.later(PARKED_MS, "parked", lambda: self._unpark(parked))

    def _serve_records(self, fetch: ReplicaFetch, reply: Reply) -> None:
        if not isinstance(self.role, LeaderState) or fetch.leader_epoch != self.leader_epoch:
            reply(FetchedPartition(self.name.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
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
        self.partition.carry_out(step, Millis(WALL_MS))
        assert not self.partition.is_offline
        self._note_moved()

    # ── the disk ─────────────────────────────────────────────────────────────────────────────────

    def _request_sync(self) -> None:
        if self.rules.durable_only and not self._is_syncing:
            self._is_syncing = True
            self._owner.later(self._owner.sync_ms(), f"sync {self.name}", self.sync)

    def sync(self) -> None:
        self._is_syncing = False
        if not self._is_removed:
            self.log.sync()
            self.partition.on_synced()

    def read_content(self) -> list[RecordId]:
        """Every record of the log, read back from its files."""
        return read_content(self.log)
