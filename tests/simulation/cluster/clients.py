"""Clients of the simulated cluster: idempotent writers with acks=all, and a reader that follows the logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from mqcore.links.link import Link
from mqcore.links.outcome import LinkFault
from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.records import read_records
from tests.conformance.history import Place, Sent
from tests.simulation.cluster.network import NodeNetwork, SimNetwork
from tests.simulation.cluster.nodes import SimProcess
from tests.unit.mqcore.partitions.helpers import batch

PRODUCE, FETCH, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = (0, 7), (1, 11), (3, 8), (19, 4), (22, 1)
REQUEST_MS, RETRY_MS = 1500, 60
FETCH_BYTES_MAX = 1 << 16

GIVES_UP = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Errors that no retry mends. A correct cluster never answers them to a writer with one request under way."""


class Client:
    """Knows the addresses of all nodes and asks any of them who leads."""

    def __init__(self, name: str, network: SimNetwork, addresses: Mapping[int, tuple[str, int]], seed: int) -> None:
        self.process = SimProcess(name, network)
        self.random = Random(seed)
        self.leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self.in_sync: dict[int, list[int]] = {}
        own = NodeNetwork(network, self.process)
        self._links = {
            number: Link(self.process.clock, own, lambda address=address: address, name)  # type: ignore[misc]
            for number, address in addresses.items()
        }

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.process.clock.call_later(delay_ms, action)

    def send(self, node: int, api: tuple[int, int], then: Callable[[Any], None], **fields: Any) -> None:
        """`then` gets the decoded response, or None if none came."""

        def on_response(body: memoryview | LinkFault) -> None:
            then(None if isinstance(body, LinkFault) else decode_response(*api, body))

        self._links[node].send(*api, encode_request(*api, fields), REQUEST_MS, on_response)

    def any_node(self) -> int:
        return self.random.choice(list(self._links))

    def learn_leaders(self, topic: str, then: Callable[[], None]) -> None:
        """Metadata with an older leader epoch come from a node that is cut off. Its leader may not know what this
        client has written since, and would answer OUT_OF_ORDER_SEQUENCE_NUMBER."""

        def on_metadata(answer: Any) -> None:
            for found in answer.topics if answer is not None else ():
                for each in found.partitions if not found.error_code else ():
                    index = each.partition_index
                    if each.leader_epoch >= self._epochs.get(index, 0):
                        self._epochs[index], self.leaders[index] = each.leader_epoch, each.leader_id
                        self.in_sync[index] = sorted(each.isr_nodes)
            then()

        topics = [{"name": topic}]
        self.send(self.any_node(), METADATA, on_metadata, topics=topics, allow_auto_topic_creation=False)

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str], then: Callable[[], None]) -> None:
        """Repeat until the topic exists."""
        wanted = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 3,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }

        def on_created(answer: Any) -> None:
            error = None if answer is None else answer.topics[0].error_code
            if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                then()
            else:
                self.later(RETRY_MS, attempt)

        def attempt() -> None:
            self.send(self.any_node(), CREATE_TOPICS, on_created, topics=[wanted], timeout_ms=1000, validate_only=False)

        attempt()


class Writer(Client):
    """Writes to every partition, one batch under way in each, until `stop`. It repeats a batch until it knows."""

    def __init__(self, *arguments: Any, topic: str, partitions: int, pause_ms: int) -> None:
        super().__init__(*arguments)
        self.topic, self.partitions, self.pause_ms = topic, partitions, pause_ms
        self.acked: dict[Sent, Place] = {}
        self.open: dict[int, Sent] = {}
        self.given_up: list[str] = []
        self._is_stopping = False
        self._producer_id = -1

    def start(self) -> None:
        def on_id(answer: Any) -> None:
            if answer is None or answer.error_code:
                self.later(RETRY_MS, self.start)
                return
            self._producer_id = answer.producer_id
            self.learn_leaders(self.topic, self._begin)

        self.send(self.any_node(), INIT_PRODUCER_ID, on_id, transactional_id=None, transaction_timeout_ms=1000)

    def stop(self) -> None:
        self._is_stopping = True

    @property
    def is_done(self) -> bool:
        return self._is_stopping and not self.open and self._producer_id >= 0

    def _begin(self) -> None:
        for partition in range(self.partitions):
            self._write(partition, 0)

    def _write(self, partition: int, number: int) -> None:
        if self._is_stopping:
            return
        self.open[partition] = Sent(self.process.name, partition, number)
        self._send_batch(partition)

    def _send_batch(self, partition: int) -> None:
        sent, leader = self.open[partition], self.leaders.get(partition, -1)
        if leader < 0:
            self._retry(partition)
            return
        value = f"{sent.producer}/{sent.partition}/{sent.number}".encode()
        records = bytes(batch(value, producer=self._producer_id, sequence=sent.number))

        def on_answer(answer: Any) -> None:
            if answer is None:
                self._retry(partition)
                return
            told = answer.responses[0].partition_responses[0]
            if told.error_code in GIVES_UP:
                self.given_up.append(f"{sent}: {ErrorCode(told.error_code).name}")
                self.open.pop(partition)
            elif told.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._retry(partition)
            else:
                self.open.pop(partition)
                if told.base_offset >= 0:
                    self.acked[sent] = Place(partition, told.base_offset)
                self.later(self.random.randrange(2 * self.pause_ms), lambda: self._write(partition, sent.number + 1))

        self.send(
            leader,
            PRODUCE,
            on_answer,
            transactional_id=None,
            acks=-1,
            timeout_ms=1000,
            topic_data=[{"name": self.topic, "partition_data": [{"index": partition, "records": records}]}],
        )

    def _retry(self, partition: int) -> None:
        self.later(RETRY_MS, lambda: self.learn_leaders(self.topic, lambda: self._send_batch(partition)))


class Reader(Client):
    """Reads every partition from its start, and never goes back. `seen` is in the order of delivery.

    Like clients since KIP-320, it names the leader epoch that it knows. Otherwise it may read from a follower for a
    long time, learn of a former leader that was frozen, and be told that the next offset does not exist.
    """

    def __init__(self, *arguments: Any, topic: str, partitions: int) -> None:
        super().__init__(*arguments)
        self.topic = topic
        self.next = dict.fromkeys(range(partitions), 0)
        self.ends: dict[int, int] = {}
        self.seen: list[tuple[Place, Sent]] = []
        self.faults: list[str] = []

    def start(self) -> None:
        for partition in self.next:
            self._read(partition)

    def _read(self, partition: int) -> None:
        leader = self.leaders.get(partition, -1)
        if leader < 0:
            self._retry(partition)
            return
        place = {
            "partition": partition,
            "current_leader_epoch": self._epochs[partition],
            "fetch_offset": self.next[partition],
            "log_start_offset": -1,
            "partition_max_bytes": FETCH_BYTES_MAX,
        }
        self.send(
            leader,
            FETCH,
            lambda answer: self._take(partition, answer),
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": self.topic, "partitions": [place]}],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _take(self, partition: int, answer: Any) -> None:
        if answer is None or answer.error_code or answer.responses[0].partitions[0].error_code:
            error = None if answer is None else answer.responses[0].partitions[0].error_code
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.faults.append(f"partition {partition}: offset {self.next[partition]} is out of range")
            self._retry(partition)
            return
        found = answer.responses[0].partitions[0]
        self.ends[partition] = found.high_watermark
        content = memoryview(bytes(found.records or b""))
        for position, header in read_headers(content):
            if header.is_control:
                continue
            for record in read_records(content[position : position + header.size], header):
                if record.offset >= self.next[partition]:
                    producer, index, number = (record.value or b"").decode().split("/")
                    self.seen.append((Place(partition, record.offset), Sent(producer, int(index), int(number))))
                    self.next[partition] = record.offset + 1
        self.later(self.random.randrange(20), lambda: self._read(partition))

    def _retry(self, partition: int) -> None:
        self.later(RETRY_MS, lambda: self.learn_leaders(self.topic, lambda: self._read(partition)))
