"""A simulated node: a `Voter` over the real stores on a disk in memory. It carries decisions out as the shell will."""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.log.errors import LogFailed
from mqcore.raft.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    Request,
    Response,
    Ticket,
    VoteRequest,
    VoteResponse,
    VoterKey,
    voter_set,
)
from mqcore.raft.quorum_file import QuorumFile
from mqcore.raft.quorum_log import FOLDER, QuorumLog
from mqcore.raft.ready import (
    Answered,
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    Event,
    LogChange,
    LogMoved,
    QuorumRules,
    Ready,
    Received,
    StoreSnapshotPart,
    Tick,
    Truncate,
    Unanswered,
)
from mqcore.raft.snapshots import Snapshots, founding_snapshot
from mqcore.raft.state import Leader
from mqcore.raft.voter import Voter
from mqcore.wire.batches import read_headers
from mqcore.wire.records import Record, read_records

if TYPE_CHECKING:
    from tests.simulation.raft.world import World

RULES = QuorumRules(frozenset(BrokerId(number) for number in (1, 2, 3)))
FAST_RULES = RULES._replace(
    fetch_timeout_ms=600, election_timeout_ms=300, fetch_wait_ms=150, retry_ms=20, lost_request_grace_ms=100
)
PART_BYTES = 150
RETRY_MS = 50
FETCH_BYTES = 400


class Image:
    """The state that committed records build: how many, and a hash over all of them."""

    def __init__(self, end: int = 0, digest: str = "") -> None:
        self.end = end
        self.digest = digest

    def apply(self, record: Record) -> None:
        value = record.value or b""
        self.digest = sha256(self.digest.encode() + b"%d " % record.offset + value).hexdigest()

    def records(self) -> list[Record]:
        return [Record(0, 0, b"image", json.dumps(self.digest).encode())]


class Node:
    """`order` is the order in which a decision is carried out. A seeded bug changes it."""

    def __init__(self, world: World, number: int, random: Random, *, founder: bool = False) -> None:
        self.world = world
        self.id = BrokerId(number)
        self.random = random
        self.is_paused = False
        self.disk_slowness = 1.0
        self.life = 0
        self.snapshot_every = random.choice((6, 15, 40))
        self.new_folder()
        if founder:
            self.found()

    def new_folder(self) -> None:
        self.disk = MemoryDisk(self.random.getrandbits(32))
        self.key = VoterKey(self.id, UUID(int=self.random.getrandbits(128)))
        self.voter: Voter | None = None
        self.log: QuorumLog | None = None

    def found(self) -> None:
        """What `mqcore format --founder` writes."""
        self.disk.make_directory(str(FOLDER))
        Snapshots(self.disk, str(FOLDER)).write(founding_snapshot(voter_set([self.key])), 0)
        self.disk.sync_directory("")

    # ── life and death ───────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self.life += 1
        self.pending: list[bytes] = []
        self.acks: deque[tuple[int, bytes]] = deque()
        self.is_syncing = False
        self.open_requests: dict[int, tuple[BrokerId, Request]] = {}
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._timer_at: int | None = None
        self.log = QuorumLog(self.disk, self.world.now)
        self.file = QuorumFile(self.disk, str(FOLDER))
        self.image = self._load_image(self.log)
        watermark = self.log.snapshot.end if self.log.snapshot else 0
        now = Millis(self.world.now)
        self.voter = Voter(self.key, self.world.rules, self.random.random, self.file.read(), watermark, now)
        self.world.invariants.after_start(self)
        self._set_timer()

    @staticmethod
    def _load_image(log: QuorumLog) -> Image:
        if log.snapshot is None:
            return Image()
        records = log.snapshots.read(log.snapshot).records
        return Image(log.snapshot.end, json.loads(records[0].value or b"")) if records else Image(log.snapshot.end)

    def crash(self) -> None:
        self.voter = None
        self.life += 1
        self.world.reset_connections(self)

    @property
    def is_up(self) -> bool:
        return self.voter is not None

    # ── deciding and carrying out ────────────────────────────────────────────────────────────────

    def handle(self, event: Event) -> None:
        if self.voter is None:
            return
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events and self.voter is not None:
                self._handle_one(self._events.popleft())
        except Crashed:
            self.world.lose_process(self)
        except LogFailed:
            self.world.kill(self)
            self.world.start_later(self)
        finally:
            self._is_handling = False

    def _handle_one(self, event: Event) -> None:
        assert self.voter is not None and self.log is not None
        ready = self.voter.decide(event, self.log, Millis(self.world.now))
        try:
            self.carry_out(ready)
        except OSError:  # the disk is full; a decision that is dropped as a whole has not happened
            if isinstance(event, Answered):
                self._events.append(Unanswered(event.node, event.request))
            self._timer_at = self.world.now + RETRY_MS
            self.world.call_later(RETRY_MS, self, self._on_timer)
            return
        self.world.note(self, event)
        self.voter.check(self.log)
        self.world.invariants.after_event(self)
        self._react()

    def carry_out(self, ready: Ready) -> None:
        """The order is the promise of the machine: nothing leaves before what it relies on is durable."""
        if ready.persist is not None:
            self.file.write(ready.persist)
        self.finish(ready)

    def finish(self, ready: Ready) -> None:
        assert self.voter is not None
        if ready.log is not None:
            self.change_log(ready.log, ready.state.election.epoch)
        self.voter.apply(ready)
        for ticket, response in ready.answers:
            if isinstance(response, VoteResponse) and response.granted:
                self.world.invariants.on_vote(self, self.world.request_of(ticket))
            self.world.reply(self, ticket, self._fill(response))
        for node, request in ready.sends:
            if isinstance(request, VoteRequest):
                self.world.invariants.on_vote(self, request)
            self.world.send(self, node, request)

    def change_log(self, change: LogChange, epoch: LeaderEpoch) -> None:
        log, now = self.log, self.world.now
        assert log is not None
        before = log.end
        match change:
            case AppendLeaderChange(granted):
                log.append_leader_change(self.id, granted, epoch, now)
            case AppendVoters(voters):
                log.append_voters(voters, epoch, now)
            case AppendFetched(records):
                log.append_fetched(records, now)
            case Truncate(end):
                log.truncate(end)
            case StoreSnapshotPart(snapshot, position, data, is_last):
                log.store_part(snapshot, position, data, is_last=is_last)
                if is_last:
                    self.image = self._load_image(log)
        if not isinstance(change, (Truncate, StoreSnapshotPart)):
            self.world.invariants.on_append(self, before)
        self._events.append(LogMoved())

    def _fill(self, response: Response) -> Response:
        """Add what only the shell can read."""
        assert self.log is not None
        match response:
            case FetchResponse(records_from=offset) if offset is not None:
                return response._replace(records_from=None, records=self.log.read(offset, FETCH_BYTES))
            case FetchSnapshotResponse(snapshot=snapshot, position=position) if snapshot is not None:
                data, size = self.log.snapshots.read_part(snapshot, position, PART_BYTES)
                return response._replace(data=data, size=size)
            case _:
                return response

    # ── what follows from a decision ─────────────────────────────────────────────────────────────

    def _react(self) -> None:
        assert self.voter is not None and self.log is not None
        self._apply_committed()
        if self.log.durable < self.log.end and not self.is_syncing:
            self.is_syncing = True
            self.world.call_later(self.sync_ms(), self, self._end_sync)
        if not isinstance(self.voter.state.role, Leader):
            self.pending.clear()
            self.acks.clear()
        elif self.pending and self.voter.may_append(self.log):
            self._append_pending()
        self._set_timer()

    def sync_ms(self) -> int:
        return int(self.random.choice((1, 1, 2, 5)) * self.disk_slowness)

    def _end_sync(self) -> None:
        assert self.log is not None
        self.is_syncing = False
        try:
            self.log.sync()
        except Crashed:
            self.world.lose_process(self)
        self.handle(LogMoved())

    def _append_pending(self) -> None:
        """The journal's accumulator: what came during a sync becomes one batch."""
        assert self.voter is not None and self.log is not None
        values, self.pending = self.pending, []
        before = self.log.end
        records = [Record(0, self.world.now, b"value", value) for value in values]
        try:
            end = self.log.append_records(records, self.voter.epoch, self.world.now)
        except OSError:
            return  # the disk is full; the clients get an error
        self.world.invariants.on_append(self, before)
        self.acks.extend((end, value) for value in values)
        self._events.append(LogMoved())

    def committed_end(self) -> int:
        assert self.voter is not None
        return self.voter.high_watermark

    def _apply_committed(self) -> None:
        assert self.log is not None
        while self.image.end < self.committed_end():
            data = memoryview(self.log.read(self.image.end))
            for position, header in read_headers(data):
                if header.next_offset > self.committed_end():
                    return
                if not header.is_control:
                    for record in read_records(data[position:], header):
                        self.image.apply(record)
                        self.world.invariants.values[record.offset] = record.value or b""
                self.image.end = header.next_offset
                self.world.invariants.on_applied(self)
        while self.acks and self.acks[0][0] <= self.committed_end():
            self.world.invariants.acknowledged.append(self.acks.popleft())
        start = self.log.snapshot.end if self.log.snapshot else 0
        if self.image.end - start >= self.snapshot_every:
            with suppress(OSError):  # the disk is full; the next commit tries again
                self.log.write_snapshot(self.image.end, self.image.records(), self.world.now)

    def _set_timer(self) -> None:
        assert self.voter is not None and self.log is not None
        at = self.voter.deadline(self.log)
        if at is not None and (self._timer_at is None or at < self._timer_at):
            self._timer_at = max(at, self.world.now)
            self.world.call_later(self._timer_at - self.world.now, self, self._on_timer)

    def _on_timer(self) -> None:
        assert self.voter is not None and self.log is not None
        if self._timer_at is not None and self._timer_at <= self.world.now:
            self._timer_at = None
            at = self.voter.deadline(self.log)
            if at is not None and at <= self.world.now:
                self.handle(Tick())
            else:
                self._set_timer()

    def receive(self, ticket: Ticket, request: Request) -> None:
        self.handle(Received(ticket, request))

    def submit(self, value: bytes) -> bool:
        """Whether this node takes the client's value. It may still be lost with the node."""
        if self.voter is None or self.is_paused or not self.voter.is_active():
            return False
        self.pending.append(value)
        self.handle(LogMoved())
        return True
