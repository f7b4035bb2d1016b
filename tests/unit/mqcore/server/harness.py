"""Connections without a network, on a clock that the test moves, with handlers that answer when the test says so."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

from mqcore.apis.call import LATER, Api
from mqcore.config import BrokerConfig
from mqcore.server.call import ServerCall
from mqcore.server.connection import Connection
from mqcore.server.connection_limits import ConnectionLimits
from mqcore.server.context import ServerContext
from mqcore.server.served_apis import ServedApi
from mqcore.server.turns import LoopTurns
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.produce import PRODUCE
from tests.unit.mqcore.coordination.virtual import VirtualClock, VirtualTimer
from tests.unit.mqcore.fake_services import services_with

ECHO, WAIT, SILENT, FAIL, HANG_UP = 900, 901, 902, 903, 904
"""Made-up APIs: answers with its request, answers when the test says so, never answers, raises, closes."""

NAMES = {ECHO: "echo", WAIT: "wait", SILENT: "silent", FAIL: "fail", HANG_UP: "hang up"}


class TurnClock(VirtualClock):
    """A clock whose `call_soon` waits for `end_turn`, as an event loop does."""

    def __init__(self) -> None:
        super().__init__()
        self._soon: list[VirtualTimer] = []

    def call_soon(self, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        self._soon.append(timer)
        return timer

    def end_turn(self) -> bool:
        """Run what this turn has scheduled; False if that was nothing."""
        due, self._soon = self._soon, []
        for timer in due:
            if timer.callback is not None:
                timer.callback()
        return bool(due)

    def run_turns(self) -> None:
        """End turns until nothing is scheduled."""
        for _ in range(10_000):
            if not self.end_turn():
                return
        raise AssertionError("the turns of the loop do not end")


class FakeTransport:
    """Records what was written. `room` is how much the socket takes before it pauses the connection."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
        self.written = bytearray()
        self.writes = 0
        self.paused = self.closed = self.aborted = False
        self.room: int | None = None
        self.unacknowledged = 0
        self.protocol: Connection | None = None

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1234) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unacknowledged

    def write(self, data: bytes) -> None:
        self.written += data
        self.writes += 1
        if self.room is not None:
            self.room -= len(data)
            if self.room <= 0 and self.protocol is not None:
                self.protocol.pause_writing()

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        assert not self.paused, "paused twice"
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused, "resumed without a pause"
        self.paused = False

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Slice:
    """A piece of a log that records the largest read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)
        self.largest_read = 0
        self.missing = 0

    def read_part(self, start: int, length: int) -> bytes:
        self.largest_read = max(self.largest_read, length)
        return self.content[start : start + length - self.missing]


class Handlers:
    """`waiting` are the calls of `WAIT`; `pieces` says what `ECHO` answers to a request instead of the request."""

    def __init__(self) -> None:
        self.waiting: list[ServerCall] = []
        self.requests: list[bytes] = []
        self.pieces: dict[bytes, list[Piece]] = {}

    def handler_of(self, key: int) -> Callable[[Any, ServerCall], Any]:
        def handle(request: bytes, call: ServerCall) -> Any:
            self.requests.append(request)
            match NAMES[key]:
                case "echo":
                    return self.pieces.get(request, [request])
                case "wait":
                    self.waiting.append(call)
                    return LATER
                case "silent":
                    return None
                case "hang up":
                    call.hang_up()
                    return None
                case _:
                    raise RuntimeError("a bug")

        return handle


def frame(key: int, body: bytes = b"", correlation: int = 0) -> bytes:
    head = struct.pack(">hhih", key, 0, correlation, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


class ServerHarness:
    def __init__(self, **settings: int | str) -> None:
        self.clock = TurnClock()
        self.services = services_with(BrokerConfig(**cast(Any, settings)), clock=self.clock)
        self.metrics = self.services.metrics
        self.limits = ConnectionLimits(self.services.config, self.metrics, self.clock)
        self.handlers = Handlers()
        self.apis = {key: self._served(key, name) for key, name in NAMES.items()}
        turns = LoopTurns(self.clock, then=self.limits.limit_unsent)
        self._context = ServerContext(self.services, self.apis, self.limits, turns)

    def _served(self, key: int, name: str) -> ServedApi:
        return ServedApi(
            Api(key, name, 0, 0),
            self.handlers.handler_of(key),
            decode=lambda version, data, start: bytes(data[start:]),
            encode=lambda version, answer: list(answer),
            requests=self.metrics.requests.cell(name),
            seconds=self.metrics.request_seconds.histogram(name),
        )

    def treat_as_produce(self, key: int) -> None:
        """Count the requests of this made-up API as Produce requests."""
        self.apis[key] = self.apis[key]._replace(api=Api(PRODUCE, NAMES[key], 0, 0))

    def connect(self, host: str = "10.0.0.1", listener: str = "PLAINTEXT") -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self._context, listener), FakeTransport(host)
        transport.protocol = connection
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport

    def answer(self, index: int, answer: list[Piece] | None = None) -> None:
        """Answer a waiting call and let the turn of the loop end."""
        self.handlers.waiting[index].answer(answer or [])
        self.clock.run_turns()

    def resume_writing(self, connection: Connection) -> None:
        connection.resume_writing()
        self.clock.run_turns()

    def feed(self, connection: Connection, data: bytes, bytes_max: int = 1 << 20) -> None:
        """Deliver bytes as the event loop does, ending the turn after each read."""
        position = 0
        while position < len(data):
            position += self._deliver(connection, data[position : position + bytes_max])
            self.clock.run_turns()

    def feed_in_one_turn(self, connection: Connection, data: bytes) -> None:
        """Deliver bytes that fit into the receive buffer, without ending the turn."""
        assert self._deliver(connection, data) == len(data)

    def feed_while_read(self, connection: Connection, transport: FakeTransport, data: bytes) -> int:
        """Deliver as much as the connection reads before it pauses; returns how much that is."""
        sent = 0
        while sent < len(data) and not transport.paused and not transport.aborted:
            sent += self._deliver(connection, data[sent:])
            self.clock.run_turns()
        return sent

    def _deliver(self, connection: Connection, data: bytes) -> int:
        transport = cast(Any, connection._transport)
        assert transport is not None and not transport.paused and not transport.aborted, "the connection is not read"
        view = connection.get_buffer(-1)
        count = min(len(view), len(data))
        assert count > 0
        view[:count] = data[:count]
        connection.buffer_updated(count)
        return count

    def closed_connections(self, reason: str) -> float:
        return self.metrics.bad_requests.cell(reason).value


def answers(written: bytes | bytearray) -> list[tuple[int, bytes]]:
    """(correlation id, body) of every complete answer."""
    found, position = [], 0
    while position + 4 <= len(written):
        (size,) = struct.unpack_from(">i", written, position)
        if position + 4 + size > len(written):
            break
        (correlation,) = struct.unpack_from(">i", written, position + 4)
        found.append((correlation, bytes(written[position + 8 : position + 4 + size])))
        position += 4 + size
    return found


def correlations(written: bytes | bytearray) -> list[int]:
    return [correlation for correlation, _ in answers(written)]
