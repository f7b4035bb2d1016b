"""Connections, descriptors and slow clients are limited, and other clients are served meanwhile."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable

import pytest

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.abusive_clients import (
    API_VERSIONS,
    HEARTBEAT,
    MANY,
    MIB,
    SOCKETS,
    SYNC_GROUP,
    TIMES,
    ClientSockets,
    Peak,
    WellBehavedClient,
    assert_healthy,
    closed,
    open_files,
    resident,
    wait_until,
)
from tests.conformance.raw import (
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    Gone,
    Wire,
    fetch_request,
    framed,
)

pytestmark = [pytest.mark.timeout(120 + 60 * TIMES), pytest.mark.usefixtures("many_files")]


def test_connections_are_limited_per_address_and_in_total(new_broker: Callable[..., BrokerProcess]) -> None:
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

    wait_until(comes_in, "a free place is not given to a new connection")
    for wire in [*second, *again]:
        if wire is not None:
            wire.close()


def test_silent_connections_of_one_address_do_not_block_other_addresses(
    new_broker: Callable[..., BrokerProcess],
) -> None:
    broker = new_broker(first_request_timeout_ms="2000").start()
    peak = Peak(broker)
    with ClientSockets(broker, 2000):
        with Wire(broker.port, source="127.0.0.2") as other:
            assert other.ask(API_VERSIONS, 0, b"").error_code == 0
        assert peak.grown("2000 silent connections") < 32 * MIB

        def comes_in() -> bool:
            with Wire(broker.port) as wire, contextlib.suppress(Gone, ConnectionError):
                return bool(wire.ask(API_VERSIONS, 0, b"").error_code == 0)
            return False

        wait_until(comes_in, "connections without a request are not closed")
    assert_healthy(broker)


def test_a_flood_of_connections_leaks_nothing(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(**MANY).start()
    with WellBehavedClient(broker, topic):
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
    assert_healthy(broker)


def test_without_free_descriptors_connections_are_refused_and_nothing_fails(
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
        with ClientSockets(broker, 40):
            for _ in range(100):  # rolls and syncs, if it could
                assert wire.produce(topic).error_code == 0
                assert wire.produce(f"{topic}-2").error_code == 0
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (hard, hard))
        wait_until(lambda: wire.produce(topic).error_code == 0, "the log does not go on")
        wire.create(f"{topic}-3")
        assert wire.fetch(topic, 0).records
    assert_healthy(broker)
    assert "failed" not in broker.log
    assert broker.stop() == 0


def test_connections_leave_descriptors_for_the_logs(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker(max_connections="4000")
    command = broker.command()
    broker.command = lambda: ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *command]  # type: ignore[method-assign]
    broker.start()
    assert "max.connections is reduced" in broker.log and "allowed=100" in broker.log
    with Wire(broker.port) as wire, ClientSockets(broker, 150):
        wire.create("orders", segment_bytes="300")
        for _ in range(50):
            assert wire.produce("orders").error_code == 0
    assert_healthy(broker)


def test_a_connection_without_a_request_is_closed(new_broker: Callable[..., BrokerProcess]) -> None:
    """The broker cannot distinguish it from a client that has crashed."""
    broker = new_broker(connections_max_idle_ms="1000").start()
    with Wire(broker.port) as silent, Wire(broker.port) as waiting:
        waiting.create("t")
        waiting.send(FETCH, 11, fetch_request("t", max_wait_ms=3000))
        assert silent.is_closed()
        assert waiting.receive()[1].error_code == 0  # it was waiting for our answer, so it was not idle


def test_one_byte_per_second_is_too_slow_and_affects_no_other_client(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    metrics = free_port()
    broker = new_broker(**MANY, request_receive_timeout_ms="1500", metrics_listener=f"127.0.0.1:{metrics}").start()
    frame = framed(METADATA, 1, 1, {"topics": []})
    with WellBehavedClient(broker, topic), ClientSockets(broker, SOCKETS) as sockets:
        for byte in frame[:4]:
            sockets.all_send(bytes([byte]))
            time.sleep(0.7)  # this is how slow the client is; the broker's timeout is 1.5 s
        wait_until(lambda: closed(metrics, "slow_request") >= SOCKETS, "the slow connections are not closed")
    assert_healthy(broker)


def test_a_stalled_broker_expels_no_member_whose_heartbeat_has_arrived(
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
            time.sleep(0.05)  # poll until __consumer_offsets exists
        member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert wire.ask(SYNC_GROUP, 1, {**member, "assignments": []}).error_code == 0
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            wire.send(HEARTBEAT, 1, member)
            time.sleep(1.5)  # the stall itself, longer than the session timeout
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert wire.receive()[1].error_code == 0
