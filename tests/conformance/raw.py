"""Shell: a client without a library, which sends exactly the bytes that a test wants, in the order it wants.

It uses the broker's own codecs, which other tests compare with those of two libraries.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from mqcore.wire.frames import API_VERSIONS, is_flexible
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.records import Record, build_batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP = 8, 9, 10, 11
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID = 19, 20, 21, 22
DESCRIBE_CONFIGS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_TOPIC_PARTITIONS = 32, 37, 44, 75

PATIENCE_S = 20.0


class Gone(Exception):
    """The broker closed the connection."""


class Wire:
    """One connection. `ask` sends a request and waits for its answer; `send` and `receive` do one half each."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", source: str | None = None) -> None:
        self.socket = socket.create_connection(
            (host, port), PATIENCE_S, source_address=None if source is None else (source, 0)
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = itertools.count(1)
        self._sent: dict[int, tuple[int, int]] = {}

    def send(self, key: int, version: int, request: Mapping[str, Any] | bytes) -> int:
        number = next(self._numbers)
        self._sent[number] = (key, version)
        self.socket.sendall(framed(key, version, number, request))
        return number

    def expect(self, number: int, key: int, version: int) -> None:
        """Register a request that was sent in another way, so that `receive` can decode its answer."""
        self._sent[number] = (key, version)

    def receive(self) -> tuple[int, Any]:
        """The next answer to any request: (number of the request, answer)."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        (number,) = struct.unpack_from(">i", frame)
        key, version = self._sent.pop(number)
        start = 5 if key != API_VERSIONS and is_flexible(key, version) else 4
        return number, decode_response(key, version, frame[start:])

    def ask(self, key: int, version: int, request: Mapping[str, Any] | bytes) -> Any:
        sent = self.send(key, version, request)
        number, answer = self.receive()
        assert number == sent
        return answer

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.socket.recv(min(1 << 20, size - len(parts)))
            except ConnectionError:
                part = b""
            if not part:
                raise Gone
            parts += part
        return bytes(parts)

    def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        """True if the broker closes the connection within `within_s`."""
        self.socket.settimeout(within_s)
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ── common requests ────────────────────────────────────────────────────────────────────────────────

    def create(self, topic: str, partitions: int = 1, **configs: str) -> Any:
        named = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": named}
        (made,) = self.ask(CREATE_TOPICS, 7, {"topics": [wanted], "timeout_ms": 10_000}).topics
        assert made.error_code == 0, made
        return made

    def produce(
        self,
        topic: str,
        batch: bytes | bytearray | None = None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
    ) -> Any:
        """The answer for the partition; None if acks=0."""
        request = produce_request(topic, batch, partition=partition, acks=acks)
        if acks == 0:
            self.send(PRODUCE, version, request)
            return None
        return self.ask(PRODUCE, version, request).responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, **options: Any) -> Any:
        """The answer for the partition."""
        version = options.pop("version", 11)
        return self.ask(FETCH, version, fetch_request(topic, offset, **options)).responses[0].partitions[0]

    def end(self, topic: str, partition: int = 0) -> int:
        wanted = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
        answer = self.ask(LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": wanted})
        return int(answer.topics[0].partitions[0].offset)


def framed(key: int, version: int, number: int, request: Mapping[str, Any] | bytes) -> bytes:
    """The whole frame, including its length."""
    body = request if isinstance(request, bytes) else encode_request(key, version, request)
    head = struct.pack(">hhih", key, version, number, 4) + b"test"
    if is_flexible(key, version):
        head += b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_request(
    topic: str, batch: bytes | bytearray | None = None, *, partition: int = 0, acks: int = -1
) -> dict[str, Any]:
    records = bytes(batched(b"v") if batch is None else batch)
    partitions = [{"index": partition, "records": records}]
    data = [{"name": topic, "partition_data": partitions}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": data}


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
) -> dict[str, Any]:
    wanted = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": partition_max_bytes,
        "current_leader_epoch": -1,
        "log_start_offset": -1,
    }
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def batched(
    *values: bytes | None,
    key: bytes | None = None,
    codec: int = 0,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    timestamp: int | None = None,
) -> bytearray:
    stamp = int(time.time() * 1000) if timestamp is None else timestamp
    idempotent = producer >= 0
    return build_batch(
        [Record(index, stamp, key, value) for index, value in enumerate(values)],
        codec=codec,
        producer_id=producer,
        producer_epoch=epoch if idempotent else -1,
        base_sequence=sequence if idempotent else -1,
    )
