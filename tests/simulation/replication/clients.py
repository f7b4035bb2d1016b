"""Producers that retry until they are answered, and consumers that read up to the high watermark."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mqcore.identity import TopicIdPartition
from mqcore.partitions.terms import NO_LEADER, Term
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition
from mqcore.wire.records import Record, build_batch
from tests.simulation.replication.broker import Broker, ConsumeRecords, ProduceRecords
from tests.simulation.replication.controller import Image
from tests.simulation.replication.events import Events, Node
from tests.simulation.replication.network import Network
from tests.simulation.replication.records import WALL_MS, RecordId, record_ids
from tests.simulation.replication.replica import Produced

REQUEST_TIMEOUT_MS = 700
BACKOFF_MS = 60


@dataclass(eq=False)
class SentBatch:
    sequence: int
    number: int  # of its first record
    count: int
    data: bytes


class Client:
    """It asks a random broker for the metadata, and keeps the newest that it has seen."""

    def __init__(
        self, name: str, partition: TopicIdPartition, events: Events, network: Network, brokers: list[Broker], seed: int
    ) -> None:
        self.name = name
        self.partition = partition
        self.node = Node(name)
        self.node.is_running = True
        self.random = Random(seed)
        self.events = events
        self._network = network
        self._brokers = brokers
        self._image = Image(-1, {}, {})

    def refresh(self) -> None:
        broker = self.random.choice(self._brokers)
        if broker.node.is_running and not broker.node.is_paused and broker.image.version > self._image.version:
            self._image = broker.image

    def leader(self) -> tuple[Broker, Term] | None:
        term = self._image.terms.get(self.partition)
        if term is None or term.leader == NO_LEADER:
            return None
        return next((broker, term) for broker in self._brokers if broker.id == term.leader)

    def later(self, delay_ms: float, what: str, action: Callable[[], None]) -> None:
        self.events.at(delay_ms, f"{self.name} {what}", action, self.node)

    def call(self, broker: Broker, request: object, then: Callable[..., None]) -> None:
        label = f"{self.name}>{broker.node.name}"
        self._network.call(self.node, broker.node, "client", request, then, REQUEST_TIMEOUT_MS, label)


class Producer(Client):
    """acks=all: idempotent, up to three batches in flight once the first one is acknowledged, endless retries.
    acks=1: each batch is sent once."""

    acks = -1
    producer_id = -1
    window = 1
    writes = True

    def begin(self, acks: int, producer_id: int, next_number: Callable[[int], int]) -> None:
        self.acks, self.producer_id = acks, producer_id
        self._next_number = next_number
        self.pending: deque[SentBatch] = deque()
        self.acked: dict[int, int] = {}  # number of a record → offset
        self.unknown: set[int] = set()  # every number that was sent
        self.on_ack: Callable[[int, int, int], None] = lambda number, count, offset: None
        self._sequence = 0
        self._attempt = 0
        self._tick()

    def retire(self) -> None:
        """Its topic is gone, so nothing it has sent will be answered."""
        self.writes, self._attempt = False, self._attempt + 1
        self.pending.clear()

    def _tick(self) -> None:
        if self.writes and len(self.pending) < self.window:
            batch = self._new_batch()
            self.pending.append(batch)
            self._send(batch)
        self.later(self.random.randrange(20, 160), "writes", self._tick)

    def _new_batch(self) -> SentBatch:
        count = self.random.randrange(1, 4)
        number = self._next_number(count)
        records = [Record(delta, WALL_MS + number + delta, None, b"v") for delta in range(count)]
        is_idempotent = self.acks == -1
        data = build_batch(
            records,
            producer_id=self.producer_id if is_idempotent else -1,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=self._sequence if is_idempotent else -1,
        )
        batch = SentBatch(self._sequence, number, count, bytes(data))
        self._sequence += count
        self.unknown.update(range(number, number + count))
        return batch

    def _send(self, batch: SentBatch) -> None:
        found, attempt = self.leader(), self._attempt
        if found is None:
            self._failed(batch, attempt)
            return
        request = ProduceRecords(self.partition, batch.data, self.acks)
        self.call(found[0], request, lambda answer: self._on_answer(batch, attempt, answer))

    def _on_answer(self, batch: SentBatch, attempt: int, answer: Produced | None) -> None:
        if attempt != self._attempt or batch not in self.pending:
            return
        if answer is None or answer.error is not ErrorCode.NONE:
            self._failed(batch, attempt)
            return
        self.pending.remove(batch)
        self.on_ack(batch.number, batch.count, answer.base_offset)
        if self.acks == -1:
            self.window = 3
            self.acked.update((batch.number + delta, answer.base_offset + delta) for delta in range(batch.count))

    def _failed(self, batch: SentBatch, attempt: int) -> None:
        """Everything unanswered is sent again, in order and on a new connection."""
        self._attempt += 1
        if self.acks == 1:
            self.pending.clear()
        else:
            self.later(BACKOFF_MS, "retries", lambda: self._retry(attempt + 1))
        self.refresh()

    def _retry(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        self.refresh()
        for batch in list(self.pending):
            if attempt == self._attempt:
                self._send(batch)


class Consumer(Client):
    def begin(self, on_seen: Callable[[int, RecordId], None], on_lost_place: Callable[[int], None]) -> None:
        self.position = 0
        self.seen: list[tuple[int, RecordId]] = []
        self._on_seen = on_seen
        self._on_lost_place = on_lost_place
        self._is_asking = False
        self._tick()

    def _tick(self) -> None:
        if not self._is_asking:
            self._ask()
        self.later(self.random.randrange(40, 120), "reads", self._tick)

    def _ask(self) -> None:
        self.refresh()
        found = self.leader()
        if found is not None:
            broker, term = found
            self._is_asking = True
            self.call(broker, ConsumeRecords(self.partition, self.position, term.leader_epoch), self._on_answer)

    def _on_answer(self, answer: FetchedPartition | None) -> None:
        self._is_asking = False
        if answer is None:
            return
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_lost_place(self.position)
        elif not answer.error_code:
            assert isinstance(answer.records, bytes)
            for found in record_ids(answer.records):  # the simulation never begins inside a batch
                self._on_seen(self.position, found)
                self.seen.append((self.position, found))
                self.position += 1
