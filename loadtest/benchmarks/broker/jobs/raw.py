"""Shell: prepared Produce and Fetch requests over many connections in one epoll loop.

The generator encodes and decodes only a correlation id per request. That takes a few microseconds, so the broker is
the limit. Each connection has one request in flight.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch, payload

_INT32 = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_LENGTH_AND_DELTA = struct.Struct(">qi11xi")
FETCH_BYTES = 1 << 20


def record_batch(values: Sequence[bytes], timestamp_ms: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0,
        producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 30,
    )  # fmt: skip
    for index, value in enumerate(values):
        builder.append(index, timestamp_ms, None, value, [])
    return bytes(builder.build())


def produce_request(topic: str, partition: int, batch: bytes | bytearray, acks: str) -> bytearray:
    """Produce 7: the last version without tagged fields and record errors; every broker knows it."""
    name = topic.encode()
    body = struct.pack(">hhih", 0, 7, 0, -1)
    body += struct.pack(">hhi", -1, -1 if acks == "all" else int(acks), 30_000)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    return bytearray(_INT32.pack(len(body)) + body)


def fetch_request(topic: str, partition: int, offset: int) -> bytes:
    """Fetch 4: without waiting, up to one megabyte."""
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, 0, -1) + struct.pack(">iiiib", -1, 100, 1, FETCH_BYTES, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, partition, offset, FETCH_BYTES)
    return _INT32.pack(len(body)) + body


def produce(spec: Spec) -> Result:
    """Requests of `batch` records each; only those without an error count."""
    batch, partitions, connections = spec.get("batch", 1), spec.get("partitions", 1), spec["connections"]
    now, value = int(time.time() * 1000), payload(spec["size"])
    content = record_batch([value] * batch, now)
    requests = [
        produce_request(spec["topic"], index % partitions, content, spec["acks"]) for index in range(connections)
    ]
    error_at = 4 + 4 + 4 + 2 + len(spec["topic"]) + 4 + 4
    ports = spec.get("ports", [spec["port"]])
    sockets = [_connect(ports[index % partitions % len(ports)]) for index in range(connections)]
    pairs = list(zip(sockets, requests, strict=True))
    by_number = {connection.fileno(): (connection.recv, connection.sendall, request) for connection, request in pairs}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    answered = rejected = 0
    watch = Stopwatch()
    for connection, request in pairs:
        connection.sendall(request)
    end = time.perf_counter() + spec["seconds"]
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            recv, send, request = by_number[number]
            answer = recv(4096)
            if _ERROR.unpack_from(answer, error_at)[0]:
                rejected += 1
            answered += 1
            send(request)
    result = watch.result((answered - rejected) * batch, spec["size"], rejected=rejected * batch)
    for connection in sockets:
        connection.close()
    return result


def fetch(spec: Spec) -> Result:
    """Every connection reads its partition from the beginning, repeatedly, and parses only batch headers."""
    partitions, connections = spec.get("partitions", 1), spec["connections"]
    sockets = {}
    poll = select.epoll()
    for index in range(connections):
        connection = _connect(spec["port"])
        sockets[connection.fileno()] = (connection, index % partitions)
        poll.register(connection.fileno(), select.EPOLLIN)
        connection.sendall(fetch_request(spec["topic"], index % partitions, 0))
    buffer = bytearray(2 * FETCH_BYTES)
    view = memoryview(buffer)
    records_at = 4 + 4 + 4 + 4 + 2 + len(spec["topic"]) + 4 + 4 + 2 + 8 + 8 + 4 + 4
    records = 0
    watch = Stopwatch()
    while watch.seconds < spec["seconds"]:
        for number, _ in poll.poll(1):
            connection, partition = sockets[number]
            end = _receive(connection, view)
            offset, count = _last_offset(buffer, records_at, end)
            records += count
            connection.sendall(fetch_request(spec["topic"], partition, offset))
    result = watch.result(records, spec["size"])
    for connection, _ in sockets.values():
        connection.close()
    return result


def _last_offset(buffer: bytearray, position: int, end: int) -> tuple[int, int]:
    """The next offset, which is 0 again at the end of the topic, and the number of records in complete batches."""
    offset = records = 0
    while position + 27 <= end:
        base, length, delta = _LENGTH_AND_DELTA.unpack_from(buffer, position)
        position += 12 + length
        if position > end:
            break
        offset, records = base + delta + 1, records + delta + 1
    return offset, records


def _receive(connection: socket.socket, view: memoryview) -> int:
    have, whole = 0, 4
    while have < whole:
        have += connection.recv_into(view[have:])
        if whole == 4 and have >= 4:
            whole = 4 + _INT32.unpack_from(view)[0]
    return whole


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
