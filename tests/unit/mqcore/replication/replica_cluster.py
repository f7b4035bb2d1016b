"""Three brokers with one partition, in one process: real logs on disks in memory, real Fetch bytes between them.

The test is the controller: it elects, and it applies each proposal for the ISR at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemThreads
from mqcore.identity import BrokerId, LeaderEpoch, TopicIdPartition, TopicPartition
from mqcore.links.link import OnResponse
from mqcore.links.outcome import LinkFault
from mqcore.partitions.durability import Durability
from mqcore.partitions.flusher import SyncedLog
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderRules
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReadRequest, ReadResult
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER, Applied, Term
from mqcore.partitions.waiting_requests import CommitOutcome, Committed
from mqcore.replication.alter_sender import AlterSender
from mqcore.replication.altering import AlterAnswer, AlterAsk
from mqcore.replication.fetch_loop import FetchLoops, FetchRules
from mqcore.replication.fetch_session import ReplicaAnswer
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fetch import FETCH, decode_fetch, encode_fetch_response
from mqcore.wire.replica_fetch import VERSION
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import HeldFlusher
from tests.unit.mqcore.partitions.helpers import batch

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ALL = (ONE, TWO, THREE)
NAME = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
KEY = TopicIdPartition(TOPIC_ID, 0)
LINK_MS = 1
LAG_MS_MAX = 3000


class SyncingFlusher(HeldFlusher):
    """Syncs a millisecond after the request."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def request_sync(self, partition: SyncedLog) -> None:
        if not self.requested:
            self._clock.call_later(1, self.run_requested)
        super().request_sync(partition)


class Node:
    """One broker. A restart makes another `Node` on the same disk."""

    def __init__(self, cluster: Cluster, broker: BrokerId, disk: MemoryDisk, broker_epoch: int) -> None:
        self.id = broker
        self.disk = disk
        self.broker_epoch = broker_epoch
        self.is_up = True
        self.flusher = SyncingFlusher(cluster.clock)
        self.hosted = HostedPartitions(disk, cluster.clock, self.flusher, is_clean=False)
        self.durability = Durability(self.hosted, self.flusher, cluster.clock, SystemThreads())
        self.fetches = ReplicaFetches(self.hosted, cluster.clock, "INTERNAL", 1 << 20)
        self.loops = FetchLoops(partial(MemoryLink, cluster, self), cluster.clock, FetchRules())
        self.sender = AlterSender(
            broker, self.hosted, cluster.clock, lambda: broker_epoch, partial(cluster.alter, self), LAG_MS_MAX
        )
        opened = self.hosted.open(NAME, TOPIC_ID, cluster.settings)
        assert opened is not None, self.hosted.open_failures
        self.partition = opened
        self.sender.start()
        self._cluster = cluster

    def learn(self, term: Term) -> None:
        rules = LeaderRules(lag_ms_max=LAG_MS_MAX)
        membership = Membership(self.id, self.broker_epoch, self._cluster.is_eligible, rules)
        if term.leader == self.id:
            self.partition.lead(term, membership, self._cluster.clock.now().monotonic_ms)
        else:
            self.partition.follow(term, membership)
        self.loops.follow(self.partition)

    def stop(self) -> None:
        self.is_up = False
        self.loops.close()
        self.sender.close()


class MemoryLink:
    """Carries encoded requests and responses. A broker that is down breaks its links."""

    def __init__(self, cluster: Cluster, source: Node, target: BrokerId) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._is_closed = False

    def send(self, key: int, version: int, body: bytes, timeout_ms: int, on_response: OnResponse) -> None:
        assert (key, version) == (FETCH, VERSION)
        self._cluster.requests += 1
        target = self._cluster.nodes[self._target]
        open_request = [on_response]

        def finish(response: memoryview | LinkFault) -> None:
            if open_request and self._source.is_up:
                open_request.pop()(response)

        def answer(found: ReplicaAnswer) -> None:
            if target.is_up:
                self._cluster.clock.call_later(LINK_MS, lambda: finish(encoded(found)))

        def arrive() -> None:
            if not target.is_up or self._is_closed:
                finish(LinkFault("the connection was refused"))
                return
            self._cluster.on_broken[self._source.id, self._target] = lambda: finish(LinkFault("broken"))
            target.fetches.serve(decode_fetch(version, memoryview(bytes(body))), answer)

        self._cluster.clock.call_later(LINK_MS, arrive)

    def close(self) -> None:
        self._is_closed = True


def encoded(answer: ReplicaAnswer) -> memoryview:
    out = bytearray()
    topics, session_id, error = answer
    for piece in encode_fetch_response(VERSION, topics, error_code=error, session_id=session_id):
        if isinstance(piece, bytes | bytearray | memoryview):
            out += piece
        else:
            out += piece.read_part(0, piece.length)
    return memoryview(out)


class Cluster:
    def __init__(self, settings: Mapping[str, str] | None = None, min_isr: int = 2) -> None:
        self.clock = VirtualClock()
        self.settings = dict(settings or {})
        self.term = Term(NO_LEADER, LeaderEpoch(0), 0, ALL, frozenset(ALL), min_isr)
        self.nodes: dict[BrokerId, Node] = {}
        self.on_broken: dict[tuple[BrokerId, BrokerId], Callable[[], None]] = {}
        self.requests = 0
        self.acknowledged: list[bytes] = []
        self._epochs = 10
        for broker in ALL:
            self._start(broker, MemoryDisk())
        self.elect(ONE)

    def _start(self, broker: BrokerId, disk: MemoryDisk) -> None:
        self._epochs += 1
        self.nodes[broker] = Node(self, broker, disk, self._epochs)

    def __getitem__(self, broker: BrokerId) -> Partition:
        return self.nodes[broker].partition

    @property
    def leader(self) -> Partition:
        return self[self.term.leader]

    def run(self, ms: int = 50) -> None:
        self.clock.advance(ms)

    # ── the controller ───────────────────────────────────────────────────────────────────────────

    def elect(self, leader: BrokerId, isr: tuple[BrokerId, ...] | None = None) -> None:
        members = self.term.isr if isr is None else frozenset(isr)
        epoch = LeaderEpoch(self.term.leader_epoch + 1)
        self._publish(replace(self.term, leader=leader, leader_epoch=epoch, isr=members))

    def _publish(self, term: Term) -> None:
        self.term = replace(term, partition_epoch=self.term.partition_epoch + 1)
        for node in self.nodes.values():
            if node.is_up:
                node.learn(self.term)

    def is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool:
        return self.nodes[broker].is_up and self.nodes[broker].broker_epoch == broker_epoch

    def alter(self, node: Node, ask: AlterAsk, on_answer: Callable[[AlterAnswer], None]) -> None:
        (proposal,) = ask.proposals.values()
        is_current = (proposal.leader_epoch, proposal.partition_epoch) == (
            self.term.leader_epoch,
            self.term.partition_epoch,
        )
        if is_current:
            self._publish(replace(self.term, isr=proposal.isr))
            outcome: Applied | ErrorCode = Applied(self.term.isr, self.term.partition_epoch)
        else:
            outcome = ErrorCode.INVALID_UPDATE_VERSION
        self.clock.call_later(LINK_MS, lambda: on_answer(AlterAnswer({KEY: outcome})))

    # ── troubles ─────────────────────────────────────────────────────────────────────────────────

    def kill(self, broker: BrokerId, loss: str = "kill") -> None:
        self.nodes[broker].stop()
        self.nodes[broker].disk.crash(loss)  # type: ignore[arg-type]
        for (_, target), break_link in list(self.on_broken.items()):
            if target == broker:
                self.clock.call_soon(break_link)

    def restart(self, broker: BrokerId) -> None:
        self._start(broker, self.nodes[broker].disk)
        self.nodes[broker].learn(self.term)

    # ── clients ──────────────────────────────────────────────────────────────────────────────────

    def produce(self, value: bytes, acks: int = -1, producer: int = -1) -> list[CommitOutcome]:
        """The outcomes; none yet if the produce still waits."""
        now_ms = self.clock.wall_ms()
        appended = self.leader.append(batch(value, timestamp=now_ms, producer=producer), now_ms)
        assert not isinstance(appended, Refusal), appended
        outcomes: list[CommitOutcome] = []

        def on_commit(outcome: CommitOutcome) -> None:
            outcomes.append(outcome)
            if isinstance(outcome, Committed) and acks == -1:
                self.acknowledged.append(value)

        self.leader.when_acknowledged(appended.end, acks, on_commit)
        return outcomes

    def consumed(self, broker: BrokerId) -> bytes:
        """All batches that a consumer of this broker may read."""
        found = self[broker].read(ReadRequest(0, 1 << 20))
        assert isinstance(found, ReadResult), found
        return b"" if found.records is None else found.records.read()

    def stored(self, broker: BrokerId) -> bytes:
        """The whole log."""
        log = self[broker].log
        found = log.read(log.start_offset, 1 << 20, limit=log.end_offset)
        return b"" if found is None else found.read()


def epochs_in(data: bytes) -> list[int]:
    return [header.leader_epoch for _, header in read_headers(data)]
