"""A link to another broker: responses in order, and a fault for every request that will get none."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import cast

import pytest

from mqcore.links.connection import LinkConnection
from mqcore.links.link import BACKOFF_MS_MIN, Link
from mqcore.links.outcome import LinkFault
from tests.unit.mqcore.coordination.virtual import VirtualClock

HEARTBEAT = (12, 0)  # a version with a simple head
VOTE = (52, 2)  # a flexible one

Outcome = bytes | LinkFault


class OtherBroker:
    """The far end of the connections. `accepts` says whether it can be reached."""

    def __init__(self) -> None:
        self.accepts = True
        self.connections: list[LinkConnection] = []
        self.received = bytearray()
        self.aborted = 0

    def bind(self, host: str, port: int) -> None:
        raise NotImplementedError

    def host_name(self) -> str:
        raise NotImplementedError

    def resolve(self, host: str) -> list[str]:
        raise NotImplementedError

    async def connect(self, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        if not self.accepts:
            raise OSError("connection refused")
        connection = cast(LinkConnection, make_protocol())
        connection.connection_made(cast(asyncio.BaseTransport, self))
        self.connections.append(connection)

    # as the transport of the connection

    def write(self, data: bytes) -> None:
        self.received += data

    def abort(self) -> None:
        self.aborted += 1
        self.connections[-1].connection_lost(None)

    # what it does

    def requests(self) -> list[tuple[int, int, int, bytes]]:
        """(API key, version, correlation id, the rest) of everything received."""
        found, rest = [], bytes(self.received)
        while rest:
            (length,) = struct.unpack_from(">i", rest)
            found.append((*struct.unpack_from(">hhi", rest, 4), rest[12 : 4 + length]))
            rest = rest[4 + length :]
        return found

    def respond(self, correlation_id: int, body: bytes, pieces: int = 1) -> None:
        data = struct.pack(">ii", 4 + len(body), correlation_id) + body
        size = -(-len(data) // pieces)
        while data:
            target = self.connections[-1].get_buffer(-1)
            taken = min(len(target), size, len(data))
            target[:taken] = data[:taken]
            data = data[taken:]
            self.connections[-1].buffer_updated(taken)


class Sender:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.other = OtherBroker()
        self.outcomes: dict[str, Outcome] = {}
        self.losses = 0
        self.link = Link(self.clock, self.other, lambda: ("other", 9092), "broker-1", self._on_lost)  # type: ignore[arg-type]

    def _on_lost(self) -> None:
        self.losses += 1

    async def send(self, name: str, api: tuple[int, int] = HEARTBEAT, timeout_ms: int = 1000) -> None:
        def on_response(outcome: memoryview | LinkFault) -> None:
            assert name not in self.outcomes, "a request is answered once"
            self.outcomes[name] = outcome if isinstance(outcome, LinkFault) else bytes(outcome)

        self.link.send(*api, name.encode(), timeout_ms, on_response)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def fault(self, name: str) -> str:
        outcome = self.outcomes[name]
        assert isinstance(outcome, LinkFault)
        return outcome.reason


@pytest.fixture
def sender() -> Sender:
    return Sender()


def on_a_loop(test: Callable[[Sender], Awaitable[None]]) -> Callable[[Sender], None]:
    @wraps(test)
    def run(sender: Sender) -> None:
        async def body() -> None:
            await test(sender)

        asyncio.run(body())

    return run


@on_a_loop
async def test_responses_go_to_their_requests_in_order(sender: Sender) -> None:
    await sender.send("first")
    await sender.send("second")
    (_, _, first, body), (_, _, second, _) = sender.other.requests()
    assert body.endswith(b"first")
    sender.other.respond(first, b"one")
    sender.other.respond(second, b"two")
    assert sender.outcomes == {"first": b"one", "second": b"two"}
    assert len(sender.other.connections) == 1


@on_a_loop
async def test_a_response_may_arrive_byte_by_byte(sender: Sender) -> None:
    await sender.send("only")
    sender.other.respond(1, b"body", pieces=12)
    assert sender.outcomes == {"only": b"body"}


@on_a_loop
async def test_a_flexible_head_ends_with_tags_on_both_sides(sender: Sender) -> None:
    await sender.send("vote", VOTE)
    ((_, _, _, rest),) = sender.other.requests()
    assert rest == struct.pack(">h", 8) + b"broker-1" + b"\0" + b"vote"
    sender.other.respond(1, b"\0" + b"granted")
    assert sender.outcomes == {"vote": b"granted"}


@on_a_loop
async def test_a_broker_that_cannot_be_reached_is_a_fault_and_is_left_alone_for_a_while(sender: Sender) -> None:
    sender.other.accepts = False
    await sender.send("first")
    sender.clock.advance(0)
    assert sender.fault("first") == "connection refused"
    await sender.send("too soon")
    sender.clock.advance(0)
    assert "a moment ago" in sender.fault("too soon")
    sender.other.accepts = True
    sender.clock.advance(BACKOFF_MS_MIN)
    await sender.send("later")
    sender.other.respond(3, b"here")
    assert sender.outcomes["later"] == b"here"
    assert sender.losses == 0


@on_a_loop
async def test_a_broken_connection_fails_every_open_request_and_is_reported(sender: Sender) -> None:
    await sender.send("first")
    await sender.send("second")
    sender.other.connections[-1].connection_lost(OSError("reset by peer"))
    sender.clock.advance(0)
    assert (sender.fault("first"), sender.fault("second")) == ("reset by peer", "reset by peer")
    assert sender.losses == 1 and not sender.link.is_connected


@on_a_loop
async def test_a_late_response_closes_the_connection_because_the_others_are_behind_it(sender: Sender) -> None:
    await sender.send("slow", timeout_ms=1000)
    await sender.send("behind it", timeout_ms=5000)
    sender.clock.advance(999)
    assert not sender.outcomes
    sender.clock.advance(2)
    assert sender.fault("slow") == sender.fault("behind it") == "no response in time"
    assert sender.other.aborted == 1


@on_a_loop
async def test_a_response_to_something_else_closes_the_connection(sender: Sender) -> None:
    await sender.send("first")
    sender.other.respond(99, b"body")
    sender.clock.advance(0)
    assert isinstance(sender.outcomes["first"], LinkFault)


@on_a_loop
async def test_a_frame_of_impossible_length_closes_the_connection(sender: Sender) -> None:
    await sender.send("first")
    connection = sender.other.connections[-1]
    connection.get_buffer(-1)[:4] = struct.pack(">i", -5)
    connection.buffer_updated(4)
    sender.clock.advance(0)
    assert isinstance(sender.outcomes["first"], LinkFault)


@on_a_loop
async def test_a_link_that_was_closed_connects_again(sender: Sender) -> None:
    await sender.send("first")
    sender.link.close()
    sender.clock.advance(0)
    assert isinstance(sender.outcomes["first"], LinkFault)
    await sender.send("second")
    sender.other.respond(2, b"two")
    assert sender.outcomes["second"] == b"two"
    assert sender.losses == 0
