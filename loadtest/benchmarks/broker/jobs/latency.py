"""Shell: end-to-end latency, from the moment a record was due to be sent until the reader has it.

Open loop: records are due at a fixed rate, however slow the broker is, and a delay of the sender counts as latency.
Writer and reader are two processes that use the same monotonic clock of the machine. The first fifth does not count.
With `rate` 0 the writer sends as fast as it can, and the result is the throughput.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from loadtest.benchmarks.broker.jobs.redis import add
from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch, payload

SKIPPED_SHARE = 0.2
PATIENCE_S = 5.0
FULL_SPEED_QUEUE = 10_000


def write(spec: Spec) -> Result:
    """Start the reader, send the records, and return the reader's result."""
    reader = subprocess.Popen(
        [sys.executable, "-m", "loadtest.benchmarks.broker.jobs", "latency-reader", json.dumps(spec)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    try:
        assert reader.stdout.readline() == "ready\n", "the reader did not start"
        send, wait = _redis_writer(spec) if spec.get("redis") else _kafka_writer(spec)
        watch = Stopwatch()
        sent = _at_rate(spec, send, wait) if spec["rate"] else _at_full_speed(spec, send, wait)
        used = watch.result(sent, spec["size"])
        result: Result = json.loads(reader.stdout.readline())
    finally:
        reader.wait(2 * PATIENCE_S)
    result["sent"] = sent
    result["client_cores"] += used["client_cores"]
    result["rejected"] = sent + 1 - result["received"] if spec["rate"] else 0
    return result


def _at_rate(spec: Spec, send: Callable[[bytes], None], wait: Callable[[float], None]) -> int:
    rest = payload(spec["size"] - 8)
    count = int(spec["rate"] * spec["seconds"])
    step_ns = 1e9 / spec["rate"]
    began = time.monotonic_ns() + 10_000_000
    for number in range(count):
        due = began + int(number * step_ns)
        while (ahead := due - time.monotonic_ns()) > 0:
            wait(ahead / 1e9)
        send(due.to_bytes(8, "big") + rest)
    wait(0.1)
    return count


def _at_full_speed(spec: Spec, send: Callable[[bytes], None], wait: Callable[[float], None]) -> int:
    rest = payload(spec["size"] - 8)
    sent, end = 0, time.monotonic() + spec["seconds"]
    while time.monotonic() < end:
        send(time.monotonic_ns().to_bytes(8, "big") + rest)
        sent += 1
    wait(1.0)
    return sent


def _kafka_writer(spec: Spec) -> tuple[Callable[[bytes], None], Callable[[float], None]]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{spec['port']}",
            "acks": spec["acks"],
            "linger.ms": spec.get("linger_ms", 0),
            "queue.buffering.max.messages": FULL_SPEED_QUEUE,
            "log_level": 0,
        }
    )

    def send(value: bytes) -> None:
        while True:
            try:
                producer.produce(spec["topic"], value, partition=0)
                return
            except BufferError:
                producer.poll(0.001)

    def wait(seconds: float) -> None:
        producer.poll(0)
        time.sleep(seconds)

    send(bytes(8))
    producer.flush(10)
    return send, wait


def _redis_writer(spec: Spec) -> tuple[Callable[[bytes], None], Callable[[float], None]]:
    opened = socket.create_connection(("127.0.0.1", spec["port"]))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 16)

    def drop_answers() -> None:
        try:
            while opened.recv_into(buffer, 0, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            pass

    def send(value: bytes) -> None:
        opened.sendall(add(spec["topic"], b"*", value))
        drop_answers()

    def wait(seconds: float) -> None:
        drop_answers()
        time.sleep(seconds)

    send(bytes(8))
    return send, wait


def read(spec: Spec) -> Result:
    """Read every record as it arrives, until the last one or until no more arrive."""
    values = _redis_values(spec) if spec.get("redis") else _kafka_values(spec)
    wanted = int(spec["rate"] * spec["seconds"])
    waits: list[int] = []
    watch: Stopwatch | None = None
    for value in values:
        now = time.monotonic_ns()
        due = int.from_bytes(value[:8], "big")
        if not due:
            watch = Stopwatch()
            continue
        waits.append(now - due)
        if wanted and len(waits) >= wanted:
            break
    assert watch is not None, "not one record arrived"
    result = watch.result(len(waits), spec["size"])
    if not wanted:
        result["per_s"] = len(waits) / (result["seconds"] - PATIENCE_S)
    counted = sorted(waits[int(len(waits) * SKIPPED_SHARE) :])
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        result[name] = counted[min(len(counted) - 1, int(len(counted) * share))] / 1e6 if counted else None
    result["received"] = len(waits) + 1
    return result


def _kafka_values(spec: Spec) -> Iterator[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{spec['port']}",
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(spec["topic"], 0, 0)])
    consumer.poll(1.0)  # it is connected and waits at the end of an empty topic
    print("ready", flush=True)
    last = time.monotonic()
    while time.monotonic() - last < PATIENCE_S:
        message = consumer.poll(PATIENCE_S)
        if message is None:
            return
        value = message.value()
        if message.error() is None and value is not None:
            yield value
            last = time.monotonic()


def _redis_values(spec: Spec) -> Iterator[bytes]:
    """XREAD BLOCK, with just enough parsing."""
    name = spec["topic"].encode()
    opened = socket.create_connection(("127.0.0.1", spec["port"]))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = opened.makefile("rb")
    last = b"0"
    print("ready", flush=True)
    while True:
        opened.sendall(
            b"*8\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n$5\r\nBLOCK\r\n$4\r\n5000\r\n$7\r\nSTREAMS\r\n"
            b"$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(last), last)
        )
        if file.readline()[:2] in (b"*-", b""):
            return
        for _ in range(3):
            file.readline()  # *2, $…, the name of the stream
        for _ in range(int(file.readline()[1:])):
            file.readline()
            file.readline()
            last = file.readline().strip()
            for _ in range(3):
                file.readline()  # *2, $1, v
            length = int(file.readline()[1:])
            value = file.read(length + 2)
            yield value[:length]
