"""A broker that accepts a connection and then hangs or dies must not stop a client for good."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net import manager
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport

from seckill.config import kafka_handshake

WAITS_MAX = 5


class FakeNet:
    """The client's event loop, in which all time passes while it waits: whatever is due is called."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.waits = 0

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        self.due.append(function)

    async def wait_read(self, sock: object) -> None:
        self.waits += 1
        assert self.waits < WAITS_MAX, "it waits without end"
        for function in self.due:
            function()


@pytest.fixture
def silent() -> Iterator[tuple[FakeNet, Any]]:
    """A connection to a frozen broker."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    net = FakeNet()
    transport = KafkaSSLTransport(net, ours, host="localhost", ssl_context=ssl.create_default_context())
    yield net, transport
    transport._sock.close()
    theirs.close()


def test_a_handshake_without_an_answer_fails_after_its_limit(
    silent: tuple[FakeNet, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaSSLTransport, "handshake", kafka_handshake._handshake_within_limit)
    _, transport = silent
    with pytest.raises(OSError):
        asyncio.run(transport.handshake())
    assert transport._sock.fileno() == -1, "the socket must be closed"


def test_without_the_limit_it_waits_without_end(silent: tuple[FakeNet, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaSSLTransport, "handshake", kafka_handshake._handshake)
    _, transport = silent
    with pytest.raises(AssertionError, match="it waits without end"):
        asyncio.run(transport.handshake())


def test_a_connection_that_is_open_by_then_stays_open(
    silent: tuple[FakeNet, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(transport: object) -> None:
        pass

    monkeypatch.setattr(kafka_handshake, "_handshake", answered)
    net, transport = silent
    asyncio.run(kafka_handshake._handshake_within_limit(transport))
    for function in net.due:
        function()
    transport._sock.getpeername()


class DyingBroker:
    """A broker that resets each connection before the first byte of TLS. Python's `SSLContext` reads from the socket
    when it wraps it, so it raises the same error."""

    async def connect(self, *_: object, **__: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours

    def wrap_socket(self, sock: socket.socket, **_: object) -> socket.socket:
        sock.close()
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (kafka_handshake._build_transport, ConnectionResetError),  # no KafkaError: it ends the refresh of metadata
        (kafka_handshake._build_transport_or_fail, KafkaConnectionError),
    ],
)
def test_a_broker_that_dies_before_the_handshake_fails_one_request_for_metadata(
    build: Callable[..., Any], fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, net = DyingBroker(), NetworkSelector()
    monkeypatch.setattr(KafkaConnectionManager, "_build_transport", build)
    monkeypatch.setattr(manager, "create_connection", broker.connect)
    client = KafkaConnectionManager(net, security_protocol="SSL", ssl_context=broker)
    try:
        with pytest.raises(fault):
            net.run(client.cluster.refresh_metadata, client.cluster.bootstrap_brokers()[0].node_id)
    finally:
        client.close()
        net.close()
