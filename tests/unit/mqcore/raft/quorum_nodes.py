"""Three quorums in one process, with disks in memory, one virtual clock, and a network that encodes every message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Literal
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.host import Instant, Timer
from mqcore.identity import BrokerId, Millis, Offset
from mqcore.links.outcome import LinkFault
from mqcore.log.errors import LogFault
from mqcore.partitions.waiting_requests import CommitOutcome
from mqcore.raft import codec, founding
from mqcore.raft.messages import Request, Response, VoterKey
from mqcore.raft.quorum import Quorum
from mqcore.raft.ready import QuorumRules
from mqcore.wire.batches import read_headers
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response
from mqcore.wire.records import Record, read_records
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.inline_threads import InlineThreads

RULES = QuorumRules(frozenset(BrokerId(number) for number in (1, 2, 3)))
ALONE = QuorumRules(frozenset({BrokerId(1)}))
TRIP_MS = 2
SYNC_MS = 3
DECODERS: dict[tuple[int, int], Callable[[Any], Request]] = {
    codec.VOTE: codec.decode_vote,
    codec.BEGIN_QUORUM_EPOCH: codec.decode_begin_quorum_epoch,
    codec.END_QUORUM_EPOCH: codec.decode_end_quorum_epoch,
    codec.FETCH: codec.decode_fetch,
    codec.FETCH_SNAPSHOT: codec.decode_fetch_snapshot,
}


class LifeClock:
    """The clock of one process: its timers end with it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.is_alive = True
        self.seconds = clock.seconds
        self.sleep = clock.sleep
        self.timeout = clock.timeout

    def now(self) -> Instant:
        return self._clock.now()

    def wall_ms(self) -> Millis:
        return self._clock.wall_ms()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay_ms, lambda: callback() if self.is_alive else None)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_later(0, callback)


class Node:
    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.id = BrokerId(number)
        self.failures: list[Exception] = []
        self.syncs = 0
        self.sync_fault: Exception | None = None
        self.new_folder()

    def new_folder(self) -> None:
        random = self.cluster.random
        self.disk = MemoryDisk(Random(random.getrandbits(32)))
        self.disk.make_directory("")
        self.key = VoterKey(self.id, UUID(int=random.getrandbits(128)))

    def start(self) -> None:
        self.clock = LifeClock(self.cluster.clock)
        self.quorum = Quorum(
            self.key,
            self.cluster.rules,
            self.disk,
            self.clock,
            InlineThreads(),
            self.cluster.random.random,
            partial(self.cluster.send, self),
            self.request_sync,
            self.failures.append,
        )
        self.quorum.start()

    def request_sync(self, quorum: Quorum) -> None:
        self.clock.call_later(SYNC_MS, partial(self._sync, quorum))

    def _sync(self, quorum: Quorum) -> None:
        self.syncs += 1
        try:
            if self.sync_fault is not None:
                raise self.sync_fault
            quorum.log.sync()
        except LogFault as fault:
            quorum.go_offline(str(fault))
            self.failures.append(fault)
        else:
            quorum.on_synced()

    def crash(self, how: Literal["kill", "power"]) -> None:
        self.clock.is_alive = False
        self.disk.crash(how)

    @property
    def is_up(self) -> bool:
        return self.clock.is_alive

    def append(self, *values: bytes) -> tuple[Offset, list[CommitOutcome]]:
        """The promised end, and a list that will hold the outcome."""
        outcomes: list[CommitOutcome] = []
        end = self.quorum.append_records([Record(0, 0, None, value) for value in values])
        self.quorum.when_committed(end, outcomes.append)
        return end, outcomes

    def values(self) -> dict[int, bytes]:
        """The committed records by their offsets, without those in the snapshot."""
        quorum, found = self.quorum, dict[int, bytes]()
        position = quorum.log.start_offset
        while position < quorum.high_watermark:
            piece = quorum.log.read(position, 1 << 20, limit=quorum.high_watermark)
            assert piece is not None
            data = memoryview(piece.read())
            for place, header in read_headers(data):
                batch = data[place : place + header.size]
                if not header.is_control:
                    found |= {record.offset: record.value or b"" for record in read_records(batch, header)}
                position = header.next_offset
        return found


class Cluster:
    def __init__(self, seed: int, rules: QuorumRules = RULES) -> None:
        self.random = Random(seed)
        self.rules = rules
        self.clock = VirtualClock()
        self.cut: set[BrokerId] = set()
        """Nodes that no message reaches or leaves."""
        self.nodes = {node: Node(self, node) for node in sorted(rules.node_ids)}
        if len(self.nodes) > 1:
            for node in self.nodes.values():
                founding.format_folder(node.disk, node.key, 0, is_founder=node.id == 1)
        for node in self.nodes.values():
            node.start()

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def run(self, ms: int) -> None:
        self.clock.advance(ms)

    def run_until(self, condition: Callable[[], bool], ms: int = 20_000) -> None:
        for _ in range(ms):
            if condition():
                return
            self.clock.advance(1)
        raise AssertionError("it did not happen in time")

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def send(
        self, source: Node, target: BrokerId, request: Request, on_outcome: Callable[[Response | LinkFault], None]
    ) -> None:
        api = codec.api_of(request)
        frame = encode_request(*api, codec.encode_request(request, "cluster"))
        done = [False]

        def finish(outcome: Response | LinkFault) -> None:
            if source_clock.is_alive and not done[0]:
                done[0] = True
                on_outcome(outcome)

        def answer(response: Response) -> None:
            body = encode_response(*api, codec.encode_response(api, response))
            if not self.cut & {source.id, target}:
                decoded = codec.decode_response(request, decode_response(*api, body))
                self.clock.call_later(TRIP_MS, lambda: finish(decoded))

        def arrive() -> None:
            node = self.nodes[target]
            if node.is_up and not self.cut & {source.id, target}:
                node.quorum.receive(DECODERS[api](decode_request(*api, frame)), answer)

        source_clock = source.clock
        self.clock.call_later(TRIP_MS, arrive)
        self.clock.call_later(self.rules.fetch_timeout_ms, lambda: finish(LinkFault("no response in time")))

    # ── the cluster ──────────────────────────────────────────────────────────────────────────────

    def active(self) -> Node | None:
        """The node that leads in the newest epoch."""
        active = [node for node in self.nodes.values() if node.is_up and node.quorum.is_active]
        return max(active, key=lambda node: node.quorum.epoch, default=None)

    def elect(self, *, besides: BrokerId | None = None) -> Node:
        def found() -> bool:
            node = self.active()
            return node is not None and node.id != besides

        self.run_until(found)
        node = self.active()
        assert node is not None
        return node

    def join(self) -> Node:
        """Wait until all three are voters, and return the leader."""
        self.run_until(lambda: (leader := self.active()) is not None and len(leader.quorum.describe().voters) == 3)
        return self.elect()

    def commit(self, *values: bytes) -> Offset:
        end, outcomes = self.elect().append(*values)
        self.run_until(lambda: bool(outcomes))
        return end

    def others(self, node: Node) -> list[Node]:
        return [other for other in self.nodes.values() if other is not node]


def write_snapshot(node: Node, end: Offset) -> None:
    async def write() -> None:
        node.quorum.write_snapshot(end, [b"image"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(write())
