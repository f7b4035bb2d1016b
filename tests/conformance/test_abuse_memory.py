"""Clients cannot make the broker take more memory than its limits."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable

import pytest

from mqcore.apis.table import TABLE
from mqcore.wire.checksum import crc32c
from mqcore.wire.errors import ErrorCode
from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.abusive_clients import (
    API_VERSIONS,
    HELLO,
    MANY,
    MIB,
    SOCKETS,
    TIMES,
    ClientSockets,
    Peak,
    WellBehavedClient,
    assert_healthy,
    closed,
    resident,
    wait_until,
)
from tests.conformance.raw import (
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Wire,
    batched,
    fetch_request,
    framed,
    produce_request,
)

CORRUPT_MESSAGE = 2

pytestmark = [pytest.mark.timeout(120 + 60 * TIMES), pytest.mark.usefixtures("many_files")]


@pytest.mark.parametrize(("promised", "sent"), [(0x7FFFFFFF, 0), (100_000_000, 0), (100_000_000, 2000)])
def test_announced_lengths_take_no_memory(new_broker: Callable[..., BrokerProcess], promised: int, sent: int) -> None:
    broker = new_broker(**MANY).start()
    peak = Peak(broker)
    with ClientSockets(broker, SOCKETS) as sockets:
        sockets.all_send(HELLO + struct.pack(">i", promised) + bytes(sent))
        assert_healthy(broker)
        assert peak.grown(f"{SOCKETS} sockets × {promised}") <= 32 * MIB * max(1, SOCKETS // 1000)


def test_incomplete_requests_share_a_memory_budget(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(queued_max_request_bytes=str(16 * MIB), request_receive_timeout_ms="2000").start()
    with WellBehavedClient(broker, topic):
        peak = Peak(broker)
        part = HELLO + struct.pack(">i", 8_000_000) + bytes(4 * MIB)
        with ClientSockets(broker, 20) as sockets:
            for each in sockets.opened:
                each.setblocking(False)
            for _ in range(20):
                for each in sockets.opened:
                    with contextlib.suppress(OSError):
                        part = part[each.send(part) :] or bytes(MIB)
            assert_healthy(broker)
            assert peak.grown("20 unfinished requests of 8 MB") < 32 * MIB
    assert_healthy(broker)


def test_idle_large_buffers_do_not_block_other_clients(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """Clients that sent one large request and then only small ones."""
    broker = new_broker(queued_max_request_bytes=str(16 * MIB)).start()
    large = framed(API_VERSIONS, 0, 1, bytes(11 * MIB))  # the rest of the frame is ignored
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
def test_false_counts_take_no_memory(broker: BrokerProcess, fill: bytes) -> None:
    """Every request in every version, with half a megabyte of the same byte as its body."""
    with Wire(broker.port) as wire:
        wire.ask(METADATA, 1, {"topics": []})
    before = resident(broker)
    highest, size = before, MIB // 2
    for key, entry in TABLE.items():
        for version in range(entry.api.first_version, entry.api.last_version + 1):
            with Wire(broker.port) as wire, contextlib.suppress(ConnectionError, TimeoutError):
                wire.socket.sendall(framed(key, version, 1, fill * (size // len(fill))))
                wire.socket.settimeout(0.05)
                wire.socket.recv(1)  # it is answered or its connection is closed; a few may wait
            highest = max(highest, resident(broker))
    assert_healthy(broker)
    print(f"{fill!r}: {(highest - before) / MIB:.1f} MiB")
    assert highest - before < 64 * MIB


def test_clients_that_do_not_read_take_little_memory_and_are_closed(
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
        with ClientSockets(broker, 400, receive_bytes=4096) as sockets:
            sockets.all_send(HELLO + fetch * 20)  # 400 GB if all of it were sent
            assert len(wire.fetch(topic, max_bytes=4 * MIB, partition_max_bytes=4 * MIB).records) >= 3_600_000
            wait_until(lambda: closed(metrics, "slow_reader") >= 400, "the connections that do not read are not closed")
            assert peak.grown("400 readers that do not read") < 64 * MIB
    assert_healthy(broker)


def test_unread_answers_share_a_memory_budget(new_broker: Callable[..., BrokerProcess]) -> None:
    """Answers that are entirely in memory, unlike slices of logs. The connections with the largest ones are closed
    first."""
    metrics = free_port()
    broker = new_broker(**MANY, queued_max_response_bytes=str(4 * MIB), metrics_listener=f"127.0.0.1:{metrics}").start()
    with Wire(broker.port) as wire:
        wire.create("wide", 500)
        peak = Peak(broker)
        with ClientSockets(broker, 60, receive_bytes=4096) as sockets:
            sockets.all_send(HELLO + framed(METADATA, 12, 1, {"topics": None}) * 400)
            wait_until(lambda: closed(metrics, "unread_responses") > 0, "no connection is closed")
            (all_topics,) = wire.ask(METADATA, 12, {"topics": None}).topics
            assert len(all_topics.partitions) == 500
            assert peak.grown("60 clients that do not read their metadata") < 32 * MIB
    assert_healthy(broker)


def test_a_slow_reader_gets_everything(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
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
            if got < 2 * MIB:  # half a MiB per second, so it lags for more than twice the timeout
                time.sleep(max(0.0, began + got / (MIB // 2) - time.monotonic()))
            part = slow.recv(min(size - got, 32768))
            assert part, f"closed after {got} of {size} bytes"
            got += len(part)
    assert_healthy(broker)


def test_a_client_that_never_reads_is_not_read_either(broker: BrokerProcess) -> None:
    before = resident(broker)
    requests = framed(API_VERSIONS, 0, 1, b"") * 1000
    with ClientSockets(broker, 1) as sockets:
        (one,) = sockets.opened
        one.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 1_000_000:
                one.sendall(requests)
                sent += 1000
        grown = resident(broker) - before
        print(f"{sent} requests were taken, {grown / MIB:.1f} MiB")
        assert sent < 1_000_000 and grown < 32 * MIB
        assert_healthy(broker)


def test_the_memory_of_waiting_requests_is_limited(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """Fetches of five hundred partitions each that wait for a minute and take several times their size in memory."""
    broker = new_broker().start()
    with WellBehavedClient(broker, topic) as healthy, Wire(broker.port) as wire:
        wire.create("wide", 500)
        request = fetch_request("wide", max_wait_ms=60_000, min_bytes=1 << 30)
        (part,) = request["topics"][0]["partitions"]
        request["topics"][0]["partitions"] = [{**part, "partition": number} for number in range(500)]
        peak = Peak(broker)
        with ClientSockets(broker, 120) as sockets:
            sockets.all_send(HELLO + framed(FETCH, 11, 1, request) * 3)
            rounds = len(healthy.seconds)
            wait_until(
                lambda: len(healthy.seconds) > rounds + 20, "appends are slow because each wakes too many fetches"
            )
            assert peak.grown("360 fetches of 500 partitions") < 96 * MIB
    assert_healthy(broker)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused_in_little_memory(broker: BrokerProcess, unique: str, codec: int) -> None:
    with Wire(broker.port) as wire:
        wire.ask(API_VERSIONS, 0, b"")
        wire.create(unique, cleanup_policy="compact", max_message_bytes=str(100 * MIB))
        bomb = batched(bytes(200 * MIB if codec == 4 else 64 * MIB), key=b"k", codec=codec)
        peak = Peak(broker)
        assert wire.produce(unique, bomb).error_code == CORRUPT_MESSAGE
        assert peak.grown(f"{len(bomb) / 1000:.0f} KB of codec {codec}") < 16 * MIB + 2 * len(bomb)


def test_the_state_of_abandoned_producers_takes_little_memory(
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


def test_members_and_offsets_stay_within_group_memory_max_bytes(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    """Large members, client ids and commit metadata, until all are refused, and again after a kill -9."""
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
