"""librdkafka, the most used client besides Java's, talks over a socket to a stub that uses only `mqcore.wire`.

The stub keeps the batches of one partition in a list. The tests show that librdkafka and we agree on frames, messages,
batches and codecs in both directions.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mqcore.wire.batches import check_crc, read_header, stamp
from mqcore.wire.compression import NAMES
from mqcore.wire.fetch import FetchedPartition, decode_fetch, encode_fetch_response
from mqcore.wire.frames import API_VERSIONS, is_flexible, read_head, response_head
from mqcore.wire.messages import encode_response
from mqcore.wire.produce import ProducedPartition, decode_produce, encode_produce_response
from mqcore.wire.records import Record, build_batch, read_records

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
COORDINATOR_NOT_AVAILABLE = 15
COORDINATOR = {FIND_COORDINATOR: (0, 0)}  # not implemented, but librdkafka uses LZ4 only if it is advertised
NEWEST = {PRODUCE: (0, 10), FETCH: (4, 16), METADATA: (0, 12), API_VERSIONS: (0, 4), **COORDINATOR}
OLDEST = {PRODUCE: (0, 3), FETCH: (4, 4), METADATA: (0, 1), API_VERSIONS: (0, 0), **COORDINATOR}
TOPIC = "orders"


class Stub(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.versions = versions
        self.batches: list[bytes] = []
        self.end_offset = 0

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def append(self, batch: bytearray | memoryview) -> int:
        base = self.end_offset
        header = read_header(batch)
        check_crc(batch, header)
        stamp(batch, base, 0)
        self.batches.append(bytes(batch))
        self.end_offset += header.records_count
        return base

    def answer(self, key: int, version: int, frame: memoryview, start: int) -> bytes:
        if key == API_VERSIONS:
            keys = [{"api_key": k, "min_version": low, "max_version": high} for k, (low, high) in self.versions.items()]
            known = version <= self.versions[API_VERSIONS][1]
            return encode_response(key, version if known else 0, {"api_keys": keys, "error_code": 0 if known else 35})
        if key == METADATA:
            leader = {"partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
            brokers = [{"node_id": 1, "host": "127.0.0.1", "port": self.port}]
            topic = {"name": TOPIC, "partitions": [leader]}
            return encode_response(key, version, {"brokers": brokers, "topics": [topic], "controller_id": 1})
        if key == FIND_COORDINATOR:
            return encode_response(key, version, {"error_code": COORDINATOR_NOT_AVAILABLE, "node_id": -1})
        if key == PRODUCE:
            ((name, topic_id, ((partition, records),)),) = decode_produce(version, frame, start).topics
            answer = ProducedPartition(partition, base_offset=self.append(records))
            return encode_produce_response(version, [(name, topic_id, [answer])])
        topics = []
        for name, topic_id, partitions in decode_fetch(version, frame, start).topics:
            answers = [self.fetched(each.partition, each.fetch_offset) for each in partitions]
            topics.append((name, topic_id, answers))
        return b"".join(map(bytes, encode_fetch_response(version, topics)))  # type: ignore[arg-type]  # no slices here

    def fetched(self, partition: int, offset: int) -> FetchedPartition:
        records = b"".join(batch for batch in self.batches if read_header(batch).next_offset > offset)
        return FetchedPartition(partition, 0, self.end_offset, self.end_offset, 0, records)


class Connection(socketserver.StreamRequestHandler):
    server: Stub

    def handle(self) -> None:
        while frame := self.next_frame():
            head = read_head(frame)
            body = self.server.answer(head.api_key, head.version, frame, head.body_start)
            flexible = is_flexible(head.api_key, head.version) and head.api_key != API_VERSIONS
            response = response_head(head.correlation_id, flexible) + body
            self.wfile.write(struct.pack(">i", len(response)) + response)

    def next_frame(self) -> memoryview | None:
        """None if the client has disconnected."""
        try:
            size = self.rfile.read(4)
            frame = bytearray(self.rfile.read(struct.unpack(">i", size)[0])) if size else b""
        except (ConnectionError, struct.error):
            return None
        return memoryview(frame) if frame else None


@pytest.fixture(params=[NEWEST, OLDEST], ids=["newest versions", "oldest versions"])
def stub(request: pytest.FixtureRequest) -> Iterator[Stub]:
    with Stub(request.param) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]] = [
    (b"key", b"value" * 100, [("trace", b"1"), ("empty", b""), ("none", None)]),
    (None, b"no key", []),
    (b"no value", None, []),
    (b"", b"", []),
]


@pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
def test_batches_from_librdkafka_are_decoded(stub: Stub, codec: int) -> None:
    config: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{stub.port}", "compression.type": NAMES[codec]}
    producer = Producer({**config, "linger.ms": 20})
    refused = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    for key, value, headers in RECORDS:
        producer.produce(TOPIC, key=key, value=value, headers=headers, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert not refused
    found = [record for batch in stub.batches for record in read_records(batch)]
    assert [(record.key, record.value, list(record.headers)) for record in found] == RECORDS
    assert [record.offset for record in found] == [0, 1, 2, 3]
    codecs = {read_header(batch).codec for batch in stub.batches}
    assert codecs == {0 if NAMES[codec] == "zstd" and stub.versions is OLDEST else codec}  # zstd needs Produce 7


@pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
def test_librdkafka_decodes_our_batches(stub: Stub, codec: int) -> None:
    records = [
        Record(offset, 1_700_000_000_000 + offset, key, value, tuple(headers))  # type: ignore[arg-type]  # bytes, all
        for offset, (key, value, headers) in enumerate(RECORDS * 30)
    ]
    stub.append(build_batch(records[:100], codec=codec))
    stub.append(build_batch(records[100:], codec=codec))
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{stub.port}", "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages: Sequence[Any] = consumer.consume(len(records), timeout=20)
    finally:
        consumer.close()
    assert [
        Record(each.offset(), each.timestamp()[1], each.key(), each.value(), tuple(each.headers() or ()))
        for each in messages
    ] == records
