"""What the tests of the server share: a connection without a network, and handlers that answer when told."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from mqcore.apis.call import LATER
from mqcore.apis.services import Services
from mqcore.config import BrokerConfig
from mqcore.metrics import Metrics
from mqcore.server import connection as module
from mqcore.server.call import ServerCall
from mqcore.server.connection import Connection
from mqcore.server.dispatch import Served
from mqcore.server.traffic import Traffic
from mqcore.wire.hot import Piece

ECHO, PARK, SILENT, BREAK, HANG_UP = 900, 901, 902, 903, 904
"""Keys of made-up requests: answers what it was sent; when told; never; by failing; by closing."""

Names = "echo", "park", "silent", "break", "hang up"


class FakeServices:
    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.metrics = Metrics()


class FakeTransport:
    """Remembers what was written. `room` is what the socket takes before it says stop."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
        self.written = bytearray()
        self.writes = 0
        self.paused = self.closed = self.aborted = False
        self.room: int | None = None
        self.untaken = 0  # what the client has not read
        self.protocol: Connection | None = None

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1234) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.untaken

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
    """A piece of a log: counts how much of it was ever read at a time."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)
        self.largest_read = 0
        self.missing = 0

    def read_part(self, start: int, length: int) -> bytes:
        self.largest_read = max(self.largest_read, length)
        return self.content[start : start + length - self.missing]


class Desk:
    """The handlers' side."""

    def __init__(self) -> None:
        self.parked: list[ServerCall] = []
        self.seen: list[bytes] = []
        self.pieces: dict[bytes, list[Piece]] = {}

    def handle(self, key: int) -> Callable[[Any, ServerCall], Any]:
        def handle(request: bytes, call: ServerCall) -> Any:
            self.seen.append(request)
            match key:
                case 900:
                    return self.pieces.get(request, [request])
                case 901:
                    self.parked.append(call)
                    return LATER
                case 902:
                    return None
                case 904:
                    call.hang_up()
                    return None
                case _:
                    raise RuntimeError("a bug")

        return handle


def frame(key: int, body: bytes = b"", correlation: int = 0) -> bytes:
    head = struct.pack(">hhih", key, 0, correlation, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


class Stage:
    def __init__(self, call_soon: Callable[[Callable[[], None]], object] | None = None, **settings: int | str) -> None:
        self.config = BrokerConfig(**cast(Any, settings))
        self.services = FakeServices(self.config)
        services = cast(Services, self.services)
        self.traffic = Traffic(services) if call_soon is None else Traffic(services, call_soon)
        self.desk = Desk()
        self.traffic.table = {
            key: Served(
                cast(Any, _FakeApi(key, name)),
                self.desk.handle(key),
                lambda version, data, start: bytes(data[start:]),
                lambda version, answer: list(answer),
                self.services.metrics.requests.cell(name),
                self.services.metrics.request_seconds.histogram(name),
            )
            for key, name in zip((ECHO, PARK, SILENT, BREAK, HANG_UP), Names, strict=True)
        }

    def be_produce(self, key: int) -> None:
        """The requests of this made-up kind count as those of Produce."""
        self.traffic.table[key] = self.traffic.table[key]._replace(api=cast(Any, _FakeApi(0, "produce")))

    def connect(self, host: str = "10.0.0.1", listener: str = "PLAINTEXT") -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self.traffic, listener), FakeTransport(host)
        transport.protocol = connection
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport

    def bad(self, reason: str) -> float:
        return self.services.metrics.bad_requests.cell(reason).value


class _FakeApi:
    first_version = last_version = 0

    def __init__(self, key: int, name: str) -> None:
        self.key, self.name = key, name


def feed(connection: Connection, data: bytes, at_most: int = 1 << 20) -> None:
    """As the loop does: into the buffer the connection offers, as long as it reads."""
    position = 0
    while position < len(data):
        transport = cast(Any, connection._transport)
        assert transport is not None and not transport.paused and not transport.aborted, "nobody reads any more"
        view = connection.get_buffer(-1)
        count = min(len(view), len(data) - position, at_most)
        assert count > 0
        view[:count] = data[position : position + count]
        connection.buffer_updated(count)
        position += count


def answers(written: bytes | bytearray) -> list[tuple[int, bytes]]:
    """(correlation id, body) of every whole answer."""
    found, position = [], 0
    while position + 4 <= len(written):
        (size,) = struct.unpack_from(">i", written, position)
        if position + 4 + size > len(written):
            break
        (correlation,) = struct.unpack_from(">i", written, position + 4)
        found.append((correlation, bytes(written[position + 8 : position + 4 + size])))
        position += 4 + size
    return found


class FakeTime:
    """Stands for the module `time` in the connection."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(module, "time", clock)
    return clock


def correlations(written: bytes | bytearray) -> Sequence[int]:
    return [correlation for correlation, _ in answers(written)]
