"""A simulated node: the quorum's own driver and stores, over a simulated clock, network and disk."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, cast
from uuid import UUID

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.host import Clock
from mqcore.identity import BrokerId, Millis
from mqcore.links.outcome import LinkFault
from mqcore.log.errors import LogFailed
from mqcore.raft.driver import OnAnswer, VoterDriver
from mqcore.raft.messages import Request, Response, Ticket, VoteRequest, VoteResponse, VoterKey, voter_set
from mqcore.raft.quorum_file import QuorumFile
from mqcore.raft.quorum_log import FOLDER, QuorumLog
from mqcore.raft.ready import Adopt, Event, LogMoved, QuorumRules, Received
from mqcore.raft.snapshots import Snapshots, founding_snapshot
from mqcore.raft.state import Leader, QuorumState
from mqcore.raft.voter import Voter
from mqcore.wire.batches import read_headers
from mqcore.wire.records import Record, read_records
from tests.simulation.raft.node_clock import NodeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.raft.world import World

RULES = QuorumRules(frozenset(BrokerId(number) for number in (1, 2, 3)))
FAST_RULES = RULES._replace(
    fetch_timeout_ms=600, election_timeout_ms=300, fetch_wait_ms=150, retry_ms=20, lost_request_grace_ms=100
)
RETRY_MS = 50
FETCH_BYTES = 150
"""Small, so that followers fetch logs and snapshots in several parts."""


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
        self.driver: VoterDriver | None = None
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
        self.open_requests: dict[int, tuple[BrokerId, Callable[[Response | LinkFault], None]]] = {}
        self.log = QuorumLog(self.disk, self.world.now)
        self._checked_end = self.log.end
        file = self.open_file()
        self.image = self._load_image(self.log)
        watermark = self.log.snapshot.end if self.log.snapshot else 0
        now = Millis(self.world.now)
        voter = Voter(self.key, self.world.rules, self.random.random, file.read(), watermark, now)
        clock = cast(Clock, NodeClock(self))
        self.driver = VoterDriver(
            voter, self.log, file, clock, self._send, RETRY_MS, self._after_step, self._on_failure, FETCH_BYTES
        )
        self.world.invariants.after_start(self)
        with self.running():
            self.driver.start()

    def open_file(self) -> QuorumFile:
        """A seeded bug has another one."""
        return QuorumFile(self.disk, str(FOLDER))

    @staticmethod
    def _load_image(log: QuorumLog) -> Image:
        if log.snapshot is None:
            return Image()
        records = log.snapshots.read(log.snapshot).records
        return Image(log.snapshot.end, json.loads(records[0].value or b"")) if records else Image(log.snapshot.end)

    def crash(self) -> None:
        self.driver = None
        self.life += 1
        self.open_requests = {}
        self.world.reset_connections(self)

    def _on_failure(self, fault: Exception) -> None:
        """The disk has failed: the process stops, and is started again later."""
        assert self.driver is not None
        self.driver.stop()
        self.world.kill(self)
        self.world.start_later(self)

    @property
    def voter(self) -> Voter | None:
        return None if self.driver is None else self.driver.voter

    @property
    def is_up(self) -> bool:
        return self.driver is not None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything that the node does itself. Its disk may end it at any call."""
        try:
            yield
        except Crashed:
            self.world.lose_process(self)
        except LogFailed as fault:
            self._on_failure(fault)

    # ── what others ask for, and what it asks others ─────────────────────────────────────────────

    def handle(self, event: Event) -> None:
        if self.driver is not None:
            with self.running():
                self.driver.handle(event)

    def receive(self, request: Request, on_answer: OnAnswer) -> None:
        def answer(response: Response) -> None:
            if isinstance(request, VoteRequest) and isinstance(response, VoteResponse) and response.granted:
                self._note_vote(request)
            on_answer(response)

        self._ask(lambda ticket: Received(ticket, request), answer)

    def adopt(self, key: VoterKey) -> None:
        self._ask(lambda ticket: Adopt(ticket, key), lambda response: None)

    def _ask(self, event: Callable[[Ticket], Event], on_answer: OnAnswer) -> None:
        if self.driver is not None:
            with self.running():
                self.driver.ask(event, on_answer)

    def _send(self, node: BrokerId, request: Request, on_outcome: Callable[[Response | LinkFault], None]) -> None:
        if isinstance(request, VoteRequest):
            self._note_vote(request)
        self.world.send(self, node, request, on_outcome)

    def _note_vote(self, request: VoteRequest) -> None:
        """Judged in the next turn, because the driver logs an exception of a caller and goes on."""
        key = self.key
        self.world.call_later(0, None, lambda: self.world.invariants.on_vote(key, request))

    # ── what follows from a decision ─────────────────────────────────────────────────────────────

    def _after_step(self, before: QuorumState) -> None:
        assert self.voter is not None and self.log is not None
        self._check_appended()
        self.world.note(self)
        self.voter.check(self.log)
        self.world.invariants.after_event(self)
        self._apply_committed()
        if self.log.durable < self.log.end and not self.is_syncing:
            self.is_syncing = True
            self.world.call_later(self.sync_ms(), self, self._end_sync)
        if not isinstance(self.voter.state.role, Leader):
            self.pending.clear()
            self.acks.clear()
        elif self.pending and self.voter.may_append(self.log):
            self._append_pending()

    def _check_appended(self) -> None:
        """What the step has appended. A snapshot replaces the log instead, and the image with it."""
        assert self.log is not None
        if self.log.start > self.image.end:
            self.image = self._load_image(self.log)
        elif self.log.end > self._checked_end:
            self.world.invariants.on_append(self, self._checked_end)
        self._checked_end = self.log.end

    def sync_ms(self) -> int:
        return int(self.random.choice((1, 1, 2, 5)) * self.disk_slowness)

    def _end_sync(self) -> None:
        assert self.log is not None
        self.is_syncing = False
        with self.running():
            self.log.sync()
        self.handle(LogMoved())

    def _append_pending(self) -> None:
        """The journal's accumulator: what came during a sync becomes one batch."""
        assert self.voter is not None and self.log is not None
        values, self.pending = self.pending, []
        records = [Record(0, self.world.now, b"value", value) for value in values]
        try:
            end = self.log.append_records(records, self.voter.epoch, self.world.now)
        except OSError:
            return  # the disk is full; the clients get an error
        self._check_appended()
        self.acks.extend((end, value) for value in values)
        self.handle(LogMoved())

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

    def submit(self, value: bytes) -> bool:
        """Whether this node takes the client's value. It may still be lost with the node."""
        if self.voter is None or self.is_paused or not self.voter.is_active():
            return False
        self.pending.append(value)
        self.handle(LogMoved())
        return True
