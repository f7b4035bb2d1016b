"""Strangers who mean ill or know no better: every byte, count and second that they can cause has a bound.

Small numbers here; `ABUSE=20 pytest tests/conformance/test_abuse.py -s` multiplies them (20: a million frames and more)
and prints what was measured.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import socket
import statistics
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqcore.apis.table import TABLE
from mqcore.wire.checksum import crc32c
from mqcore.wire.errors import ErrorCode
from mqcore.wire.messages import encode_request
from seckill.stack.broker import BrokerProcess, free_port
from tests.conformance.raw import (
    CREATE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Gone,
    Wire,
    batched,
    fetch_request,
    framed,
    produce_request,
)

API_VERSIONS, HEARTBEAT, SYNC_GROUP = 18, 12, 14
CORRUPT_MESSAGE = 2
TIMES = int(os.environ.get("ABUSE", "1"))
FRAMES = 50_000 * TIMES
SOCKETS = min(500 * TIMES, 2000)
MANY = {"max_connections_per_ip": "4000", "max_connections": "4000"}
HELLO = framed(18, 0, 1, b"")
"""ApiVersions: a first request, after which larger ones are taken."""
MIB = 1 << 20

pytestmark = pytest.mark.timeout(120 + 60 * TIMES)


@pytest.fixture(autouse=True, scope="module")
def many_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def resident(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Peak:
    """How much memory the broker took at most (VmHWM) since this was made, on top of what it had."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
        self._before = self._read()

    def _read(self) -> int:
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]

    def grown(self, what: str) -> int:
        grown = self._read() - self._before
        print(f"{what}: {grown / MIB:.1f} MiB")
        return grown


def open_files(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def wait_until(true: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    give_up = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


def is_well(broker: BrokerProcess) -> None:
    """It lives, answers, and has nothing to be ashamed of in its log."""
    assert not broker.ended_by_itself(), broker.log[-3000:]
    with Wire(broker.port) as wire:
        assert wire.ask(API_VERSIONS, 0, b"").error_code == 0
    assert "Traceback" not in broker.log and "trace=" not in broker.log, broker.log[-3000:]


class Strangers:
    """Many sockets; they are closed at the end."""

    def __init__(self, broker: BrokerProcess, count: int, *, receive_bytes: int | None = None) -> None:
        """`receive_bytes`: how much the kernel takes for them; then the broker sees sooner that they do not read."""
        self.sockets: list[socket.socket] = []
        for _ in range(count):
            self.sockets.append(one := socket.socket())
            one.settimeout(20)
            if receive_bytes is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            one.connect(("127.0.0.1", broker.port))

    def all_say(self, data: bytes) -> None:
        for each in self.sockets:
            with contextlib.suppress(ConnectionError):
                each.sendall(data)

    def __enter__(self) -> Strangers:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.close()


class Healthy(threading.Thread):
    """Somebody who works all the while: produces, fetches back, and measures how long that takes."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(daemon=True)
        self._port, self._topic = broker.port, topic
        self._over = threading.Event()
        self.seconds: list[float] = []
        self.failed: str | None = None

    def run(self) -> None:
        try:
            with Wire(self._port) as wire:
                wire.create(self._topic)
                while not self._over.wait(0.005):
                    began = time.monotonic()
                    offset = wire.produce(self._topic).base_offset
                    assert wire.fetch(self._topic, offset).records
                    self.seconds.append(time.monotonic() - began)
        except Exception as fault:
            self.failed = repr(fault)

    def __enter__(self) -> Healthy:
        self.start()
        wait_until(lambda: bool(self.seconds) or self.failed is not None, "the healthy client cannot work")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)
        assert self.failed is None, self.failed
        if len(self.seconds) > 20:
            p99 = statistics.quantiles(self.seconds, n=100)[98]
            print(f"healthy client: {len(self.seconds)} rounds, p99 {p99 * 1000:.1f} ms, max {max(self.seconds):.3f} s")


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("promised", "sent"), [(0x7FFFFFFF, 0), (100_000_000, 0), (100_000_000, 2000)])
def test_promised_lengths_take_no_memory(new_broker: Callable[..., BrokerProcess], promised: int, sent: int) -> None:
    broker = new_broker(**MANY).start()
    peak = Peak(broker)
    with Strangers(broker, SOCKETS) as strangers:
        strangers.all_say(HELLO + struct.pack(">i", promised) + bytes(sent))
        is_well(broker)
        assert peak.grown(f"{SOCKETS} sockets × {promised}") <= 32 * MIB * max(1, SOCKETS // 1000)


def test_half_received_requests_share_a_budget(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(queued_max_request_bytes=str(16 * MIB), request_receive_timeout_ms="2000").start()
    with Healthy(broker, topic):
        peak = Peak(broker)
        part = HELLO + struct.pack(">i", 8_000_000) + bytes(4 * MIB)
        with Strangers(broker, 20) as strangers:
            for each in strangers.sockets:
                each.setblocking(False)
            for _ in range(20):
                for each in strangers.sockets:
                    with contextlib.suppress(OSError):
                        part = part[each.send(part) :] or bytes(MIB)
            is_well(broker)
            assert peak.grown("20 unfinished requests of 8 MB") < 32 * MIB
    is_well(broker)


def test_buffers_of_large_requests_do_not_keep_others_out(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """Clients that sent a large request once, and stay with small ones."""
    broker = new_broker(queued_max_request_bytes=str(16 * MIB)).start()
    large = framed(API_VERSIONS, 0, 1, bytes(11 * MIB))  # what is behind the request is not read
    with contextlib.ExitStack() as open_wires:
        peak = Peak(broker)
        wires = [open_wires.enter_context(Wire(broker.port)) for _ in range(3)]
        for wire in wires:
            for sent in (HELLO, large, HELLO + HELLO[:3]):
                wire.expect(1, API_VERSIONS, 0)
                wire.socket.sendall(sent)
                wire.receive()
        with Wire(broker.port) as other:
            other.create(topic)
            for _ in range(3):
                assert other.produce(topic, batched(bytes(900_000))).error_code == 0
        assert peak.grown("3 × 11 MiB once") < 40 * MIB


@pytest.mark.parametrize("fill", [b"\x00", b"\x02", b"\x7f", b"\x00\x00\x00\x01"])
def test_counts_that_lie_take_no_memory(broker: BrokerProcess, fill: bytes) -> None:
    """Every request in every version, its body half a megabyte of the same byte."""
    with Wire(broker.port) as wire:
        wire.ask(METADATA, 1, {"topics": []})
    before = resident(broker)
    highest, size = before, MIB // 2
    for key, entry in TABLE.items():
        for version in range(entry.api.first_version, entry.api.last_version + 1):
            with Wire(broker.port) as wire, contextlib.suppress(ConnectionError, TimeoutError):
                wire.socket.sendall(framed(key, version, 1, fill * (size // len(fill))))
                wire.socket.settimeout(0.05)
                wire.socket.recv(1)  # it is answered, or the connection closed; a few may wait
            highest = max(highest, resident(broker))
    is_well(broker)
    print(f"{fill!r}: {(highest - before) / MIB:.1f} MiB")
    assert highest - before < 64 * MIB


def test_readers_that_do_not_read_take_little_memory_and_are_let_go(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    metrics = free_port()
    broker = new_broker(**MANY, response_send_timeout_ms="1500", metrics_listener=f"127.0.0.1:{metrics}").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        for _ in range(64):
            wire.produce(topic, batched(bytes(900_000)))
        wire.fetch(topic)
        peak = Peak(broker)
        fetch = framed(FETCH, 11, 1, fetch_request(topic, max_bytes=50 * MIB, partition_max_bytes=50 * MIB))
        with Strangers(broker, 400, receive_bytes=4096) as strangers:
            strangers.all_say(HELLO + fetch * 20)  # 400 GB, if anybody took them
            assert len(wire.fetch(topic, max_bytes=4 * MIB, partition_max_bytes=4 * MIB).records) >= 3_600_000
            wait_until(lambda: closed(metrics, "slow_reader") >= 400, "they are still there")
            assert peak.grown("400 readers that do not read") < 64 * MIB
    is_well(broker)


def test_answers_that_clients_do_not_read_share_a_budget(new_broker: Callable[..., BrokerProcess]) -> None:
    """Not slices of logs, but answers that are whole in memory: their readers are closed, the largest first."""
    metrics = free_port()
    broker = new_broker(**MANY, queued_max_response_bytes=str(4 * MIB), metrics_listener=f"127.0.0.1:{metrics}").start()
    with Wire(broker.port) as wire:
        wire.create("wide", 500)
        peak = Peak(broker)
        with Strangers(broker, 60, receive_bytes=4096) as strangers:
            strangers.all_say(HELLO + framed(METADATA, 12, 1, {"topics": None}) * 400)
            wait_until(lambda: closed(metrics, "unread_responses") > 0, "nobody is closed")
            (all_topics,) = wire.ask(METADATA, 12, {"topics": None}).topics
            assert len(all_topics.partitions) == 500
            assert peak.grown("60 clients that do not read their metadata") < 32 * MIB
    is_well(broker)


def test_a_reader_that_is_slow_but_reads_gets_everything(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(response_send_timeout_ms="1500").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        for _ in range(8):
            wire.produce(topic, batched(bytes(900_000)))
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(("127.0.0.1", broker.port))
        slow.sendall(framed(FETCH, 11, 1, fetch_request(topic, max_bytes=8 * MIB, partition_max_bytes=8 * MIB)))
        (size,) = struct.unpack(">i", slow.recv(4, socket.MSG_WAITALL))
        got, began = 0, time.monotonic()
        while got < size:
            if got < 2 * MIB:  # at half a MiB a second: it is behind for more than twice as long as is allowed
                time.sleep(max(0.0, began + got / (MIB // 2) - time.monotonic()))
            part = slow.recv(min(size - got, 32768))
            assert part, f"closed after {got} of {size} bytes"
            got += len(part)
    is_well(broker)


def test_requests_without_end_from_a_client_that_never_reads_are_not_taken(broker: BrokerProcess) -> None:
    before = resident(broker)
    requests = framed(API_VERSIONS, 0, 1, b"") * 1000
    with Strangers(broker, 1) as strangers:
        (one,) = strangers.sockets
        one.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 1_000_000:
                one.sendall(requests)
                sent += 1000
        grown = resident(broker) - before
        print(f"{sent} requests were taken, {grown / MIB:.1f} MiB")
        assert sent < 1_000_000 and grown < 32 * MIB
        is_well(broker)


def test_requests_that_wait_are_bounded(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """Fetches that wait for a minute, each of five hundred partitions: each takes several times its size in memory."""
    broker = new_broker().start()
    with Healthy(broker, topic) as healthy, Wire(broker.port) as wire:
        wire.create("wide", 500)
        request = fetch_request("wide", max_wait_ms=60_000, min_bytes=1 << 30)
        (part,) = request["topics"][0]["partitions"]
        request["topics"][0]["partitions"] = [{**part, "partition": number} for number in range(500)]
        peak = Peak(broker)
        with Strangers(broker, 120) as strangers:
            strangers.all_say(HELLO + framed(FETCH, 11, 1, request) * 3)
            rounds = len(healthy.seconds)
            wait_until(lambda: len(healthy.seconds) > rounds + 20, "an append wakes too many")
            assert peak.grown("360 fetches of 500 partitions") < 96 * MIB
    is_well(broker)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_refused_in_little_memory(broker: BrokerProcess, unique: str, codec: int) -> None:
    with Wire(broker.port) as wire:
        wire.ask(API_VERSIONS, 0, b"")
        wire.create(unique, cleanup_policy="compact", max_message_bytes=str(100 * MIB))
        bomb = batched(bytes(200 * MIB if codec == 4 else 64 * MIB), key=b"k", codec=codec)
        peak = Peak(broker)
        assert wire.produce(unique, bomb).error_code == CORRUPT_MESSAGE
        assert peak.grown(f"{len(bomb) / 1000:.0f} KB of codec {codec}") < 16 * MIB + 2 * len(bomb)


def test_producers_that_never_come_back_take_little_memory(
    new_broker: Callable[..., BrokerProcess], unique: str
) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(unique)
        request = bytearray(framed(PRODUCE, 7, 1, produce_request(unique, batched(b"v", producer=1))))
        wire.produce(unique, batched(b"v", producer=1))
        batch = len(request) - len(batched(b"v", producer=1))
        peak = Peak(broker)
        for first in range(0, 8_000, 100):
            frames = bytearray()
            for producer in range(first, first + 100):
                struct.pack_into(">q", request, batch + 43, producer + 10)
                struct.pack_into(">I", request, batch + 17, crc32c(memoryview(request)[batch + 21 :]))
                frames += request
            wire.socket.sendall(frames)
            for _ in range(100):
                wire.expect(1, PRODUCE, 7)
                assert wire.receive()[1].responses[0].partition_responses[0].error_code == 0
        assert peak.grown("8,000 producers") < 6 * MIB


# ── connections and time ─────────────────────────────────────────────────────────────────────────


def test_members_and_offsets_of_strangers_stay_within_the_memory_of_groups(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    """Large members, large client ids, large metadata: until all are refused, and again after a kill -9."""
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic, partitions=100)
        wire.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["any"]})
        before = resident(broker)

        def join(group: str, size: int) -> int:
            protocols = [{"name": "range", "metadata": bytes(size)}]
            fields = {"group_id": group, "session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}
            fields |= {"member_id": "", "protocol_type": "consumer", "protocols": protocols}
            return int(wire.ask(JOIN_GROUP, 3, fields).error_code)

        def commit(group: str, text: str) -> set[int]:
            offsets = [
                {"partition_index": index, "committed_offset": 1, "committed_metadata": text} for index in range(100)
            ]
            fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
            fields["topics"] = [{"name": topic, "partitions": offsets}]
            answer = wire.ask(OFFSET_COMMIT, 8, fields)
            return {partition.error_code for partition in answer.topics[0].partitions}

        joins = [join(f"join-{number}", 250_000) for number in range(350)]
        assert set(joins) == {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert joins.count(0) < 270
        errors = set().union(*(commit(f"commit-{number}", "x" * 4_096) for number in range(100)))
        assert ErrorCode.COORDINATOR_NOT_AVAILABLE in errors
        assert resident(broker) - before < 140 * MIB  # the budget, the log's buffers, and what the allocator keeps

    broker.kill()
    broker.start()
    assert resident(broker) - before < 140 * MIB
    with Wire(broker.port) as wire:
        assert wire.ask(OFFSET_FETCH, 1, {"group_id": "ghost", "topics": []}).topics == []


def test_connections_are_limited_by_address_and_in_all(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker(max_connections="30", max_connections_per_ip="20").start()

    def connects(source: str) -> Wire | None:
        wire = Wire(broker.port, source=source)
        try:
            wire.ask(API_VERSIONS, 0, b"")
        except (Gone, ConnectionError):
            wire.close()
            return None
        return wire

    first = [connects("127.0.0.2") for _ in range(25)]
    assert [wire is not None for wire in first] == [True] * 20 + [False] * 5
    second = [connects("127.0.0.3") for _ in range(15)]
    assert [wire is not None for wire in second] == [True] * 10 + [False] * 5
    for wire in first:
        if wire is not None:
            wire.close()
    again: list[Wire] = []

    def comes_in() -> bool:
        again.extend(filter(None, [connects("127.0.0.2")]))
        return bool(again)

    wait_until(comes_in, "a place that became free is not given")
    for wire in [*second, *again]:
        if wire is not None:
            wire.close()


def test_silent_connections_of_one_address_keep_out_no_other(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker(first_request_timeout_ms="2000").start()
    peak = Peak(broker)
    with Strangers(broker, 2000):
        with Wire(broker.port, source="127.0.0.2") as other:
            assert other.ask(API_VERSIONS, 0, b"").error_code == 0
        assert peak.grown("2000 silent connections") < 32 * MIB

        def comes_in() -> bool:
            with Wire(broker.port) as wire, contextlib.suppress(Gone, ConnectionError):
                return bool(wire.ask(API_VERSIONS, 0, b"").error_code == 0)
            return False

        wait_until(comes_in, "connections that never asked for anything keep their places")
    is_well(broker)


def test_a_flood_of_connections_leaves_nothing_behind(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(**MANY).start()
    with Healthy(broker, topic):
        files, before = open_files(broker), resident(broker)
        began = time.monotonic()
        for number in range(2000 * TIMES):
            with socket.socket() as one:
                one.connect(("127.0.0.1", broker.port))
                if number % 3 == 1:
                    one.sendall(b"\x00\x00")
                elif number % 3 == 2:  # reset, not closed
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        print(f"{2000 * TIMES} connections in {time.monotonic() - began:.1f} s")
        wait_until(lambda: open_files(broker) <= files, "sockets stay open")
        assert resident(broker) - before < 32 * MIB
    is_well(broker)


def test_without_descriptors_connections_are_refused_and_nothing_fails(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = new_broker().start()
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    with Wire(broker.port) as wire:
        wire.create(topic, flush_messages="1", segment_bytes="300")
        wire.create(f"{topic}-2", segment_bytes="300")
        wire.produce(topic)
        wire.produce(f"{topic}-2")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (open_files(broker) + 2, hard))
        with Strangers(broker, 40):
            for _ in range(100):  # rolls and syncs, if it could
                assert wire.produce(topic).error_code == 0
                assert wire.produce(f"{topic}-2").error_code == 0
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (hard, hard))
        wait_until(lambda: wire.produce(topic).error_code == 0, "the log does not go on")
        wire.create(f"{topic}-3")
        assert wire.fetch(topic, 0).records
    is_well(broker)
    assert "failed" not in broker.log
    assert broker.stop() == 0


def test_connections_leave_descriptors_for_the_logs(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker(max_connections="4000")
    command = broker.command()
    broker.command = lambda: ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *command]  # type: ignore[method-assign]
    broker.start()
    assert "max.connections is cut" in broker.log and "allowed=100" in broker.log
    with Wire(broker.port) as wire, Strangers(broker, 150):
        wire.create("orders", segment_bytes="300")
        for _ in range(50):
            assert wire.produce("orders").error_code == 0
    is_well(broker)


def test_who_says_nothing_is_let_go(new_broker: Callable[..., BrokerProcess]) -> None:
    """Also a client that is gone without a word: nothing tells the two apart."""
    broker = new_broker(connections_max_idle_ms="1000").start()
    with Wire(broker.port) as silent, Wire(broker.port) as waiting:
        waiting.create("t")
        waiting.send(FETCH, 11, fetch_request("t", max_wait_ms=3000))
        assert silent.is_closed()
        assert waiting.receive()[1].error_code == 0  # it was not idle: we were


def test_one_byte_a_second_is_too_slow_and_hurts_nobody(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    metrics = free_port()
    broker = new_broker(**MANY, request_receive_timeout_ms="1500", metrics_listener=f"127.0.0.1:{metrics}").start()
    frame = framed(METADATA, 1, 1, {"topics": []})
    with Healthy(broker, topic), Strangers(broker, SOCKETS) as strangers:
        for byte in frame[:4]:
            strangers.all_say(bytes([byte]))
            time.sleep(0.7)
        wait_until(lambda: closed(metrics, "slow_request") >= SOCKETS, "they are still there")
    is_well(broker)


def test_a_broker_that_stood_still_expels_no_member_whose_heartbeat_has_arrived(
    new_broker: Callable[..., BrokerProcess], group: str
) -> None:
    broker = new_broker().start()
    protocols = [{"name": "range", "metadata": b""}]
    with Wire(broker.port) as wire:
        join = {"group_id": group, "member_id": "", "protocol_type": "consumer", "session_timeout_ms": 1000}
        wire.ask(FIND_COORDINATOR, 1, {"key": group, "key_type": 0})
        while (
            joined := wire.ask(JOIN_GROUP, 2, {**join, "rebalance_timeout_ms": 1000, "protocols": protocols})
        ).error_code:
            time.sleep(0.05)  # the topic of offsets is being made
        member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert wire.ask(SYNC_GROUP, 1, {**member, "assignments": []}).error_code == 0
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            wire.send(HEARTBEAT, 1, member)
            time.sleep(1.5)  # longer than the session: this is the stall
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert wire.receive()[1].error_code == 0


# ── nonsense ─────────────────────────────────────────────────────────────────────────────────────


def corpus() -> list[bytes]:
    """Sound frames of every request in every version, and some with more in them."""
    frames = []
    for key, entry in TABLE.items():
        for version in range(entry.api.first_version, entry.api.last_version + 1):
            with contextlib.suppress(ValueError):
                frames.append(framed(key, version, 1, encode_request(key, version, {})))
    for version in range(3, 10):
        frames.append(framed(PRODUCE, version, 1, produce_request("fuzz", batched(b"a", b"b", producer=3))))
    for version in range(4, 13):
        frames.append(framed(FETCH, version, 1, fetch_request("fuzz", max_wait_ms=10)))
    wanted = {"name": "fuzz", "num_partitions": 1, "replication_factor": 1, "configs": []}
    frames += [framed(CREATE_TOPICS, version, 1, {"topics": [wanted], "timeout_ms": 10}) for version in range(2, 8)]
    member = {"group_id": "fuzz", "member_id": "", "protocol_type": "consumer", "session_timeout_ms": 6000}
    protocols = [{"name": "range", "metadata": b"\x00\x01"}]
    frames += [framed(JOIN_GROUP, version, 1, {**member, "protocols": protocols}) for version in range(4)]
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x"}
    commit = {"group_id": "fuzz", "topics": [{"name": "fuzz", "partitions": [part]}]}
    frames += [framed(OFFSET_COMMIT, version, 1, commit) for version in range(5, 9)]
    return frames


def mutated(frames: list[bytes], chance: random.Random) -> bytes:
    """A frame with a few things wrong; its length is usually right, or all would end there."""
    frame = bytearray(chance.choice(frames))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.randrange(8)
        at = chance.randrange(4, len(frame))
        if kind <= 2:
            frame[at] ^= 1 << chance.randrange(8)
        elif kind == 3:
            frame[at] = chance.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))
        elif kind == 4:
            frame[at : at + 4] = struct.pack(">i", chance.choice((-1, -2, 0, 2**31 - 1, -(2**31), 1 << 20)))
        elif kind == 5 and len(frame) > 20:
            del frame[at:]
            frame += bytes(max(0, 12 - len(frame)))
        elif kind == 6:
            frame[at:at] = frame[at : at + chance.randrange(1, 40)]
        else:
            struct.pack_into(">hh", frame, 4, chance.choice(list(TABLE)), chance.randrange(-1, 20))
    if chance.random() < 0.98:
        struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)


def closed(port: int, reason: str) -> int:
    return counted(port, f'mqcore_bad_requests_total{{reason="{reason}"}}')


def counted(port: int, family: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(family))


def _pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Now and then as a network may cut it."""
    if chance.random() < 0.9:
        yield data
        return
    position = 0
    while position < len(data):
        size = chance.randrange(1, 30)
        yield data[position : position + size]
        position += size


def test_nonsense_of_every_kind_harms_nobody(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} FRAMES={FRAMES}")
    chance, frames = random.Random(seed), corpus()
    metrics = free_port()
    broker = new_broker(metrics_listener=f"127.0.0.1:{metrics}").start()
    with Healthy(broker, topic):
        for frame in frames:  # warm: readers of all versions are made once
            with Strangers(broker, 1) as strangers:
                strangers.all_say(frame)
        time.sleep(0.5)
        files, before, connections, began = open_files(broker), resident(broker), 0, time.monotonic()
        served = refused = 0
        while served + refused < FRAMES:  # what the broker has looked at; what came behind a bad frame does not count
            assert not broker.ended_by_itself(), broker.log[-3000:]
            for _ in range(500):
                with socket.socket() as one, contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", broker.port))
                    for piece in _pieces(
                        b"".join(mutated(frames, chance) for _ in range(chance.randrange(1, 6))), chance
                    ):
                        one.sendall(piece)
                    if chance.random() < 0.5:
                        one.shutdown(socket.SHUT_WR)
                        one.settimeout(0.05)
                        one.recv(1 << 16)
            connections += 500
            served = counted(metrics, "mqcore_requests_total")
            refused = counted(metrics, "mqcore_bad_requests_total")
        grown = (resident(broker) - before) / MIB
        seconds = time.monotonic() - began
        print(
            f"{connections} connections in {seconds:.0f} s: {served} served, {refused} refused, {grown:.1f} MiB grown"
        )
        assert min(served, refused) > FRAMES // 10
        assert grown < 96
        made = len(list(broker.data.iterdir()))
        wait_until(lambda: open_files(broker) <= files + 4 * made, "sockets stay open")
    is_well(broker)
    assert len(broker.log) < MIB * TIMES, "strangers fill the disk by the log"
    assert broker.stop() == 0
    broker.start()
    is_well(broker)
