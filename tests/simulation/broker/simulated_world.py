"""A world for whole brokers in which nothing is real: time, disk, network, threads and random ids.

One turn of the event loop is one turn of virtual time, so a seed decides everything that happens.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from mqcore.disk.memory import MemoryDisk
from mqcore.host import Server, StreamHandler, World
from mqcore.server.connection import Connection
from mqcore.wire.frames import is_flexible
from mqcore.wire.messages import decode_response, encode_request
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.inline_threads import InlineThreads
from tests.unit.mqcore.server.harness import FakeTransport, answers

T = TypeVar("T")

TURNS_MAX = 10_000


class SeededChance:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class SimulatedAddress:
    def __init__(self, port: int) -> None:
        self.port = port
        self.is_open = False
        self._make_protocol: Callable[[], asyncio.BaseProtocol] | None = None

    async def serve(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> Server:
        self._make_protocol, self.is_open = make_protocol, True
        return self

    async def serve_streams(self, handle: StreamHandler, read_bytes_max: int) -> Server:
        self.is_open = True
        return self

    def close(self) -> None:
        self.is_open = False

    def connect(self) -> tuple[Connection, FakeTransport]:
        assert self._make_protocol is not None and self.is_open, "connection refused"
        connection, transport = cast(Connection, self._make_protocol()), FakeTransport()
        transport.protocol = connection
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport


class SimulatedNetwork:
    def __init__(self) -> None:
        self.addresses: list[SimulatedAddress] = []

    def bind(self, host: str, port: int) -> SimulatedAddress:
        address = SimulatedAddress(port or 9092)
        self.addresses.append(address)
        return address

    async def connect(self, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        raise OSError("there is only one broker")

    def host_name(self) -> str:
        return "simulated"

    def resolve(self, host: str) -> list[str]:
        return ["127.0.0.1"]


class NoLock:
    def release(self) -> None:
        pass


class Simulation:
    """Disk and time survive a broker; its connections do not."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.disk = MemoryDisk(Random(seed))
        self.chance = SeededChance(seed)
        self.network = SimulatedNetwork()

    def world(self) -> World:
        self.network = SimulatedNetwork()
        return World(
            self.clock,
            self.disk,
            self.network,
            InlineThreads(),
            self.chance,
            lock_folder=NoLock,
            open_files_max=100_000,
        )

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for `work`, with one turn of virtual time for each turn of the event loop."""
        task = asyncio.ensure_future(work)
        for _ in range(TURNS_MAX):
            if task.done():
                return task.result()
            self.clock.advance(1)
            await asyncio.sleep(0)
        raise AssertionError("the simulation makes no progress")

    async def request(self, key: int, version: int, **fields: Any) -> Any:
        """Send one request on a new connection, and return the decoded response."""
        connection, transport = self.network.addresses[0].connect()
        await self.run(self._exchange(connection, transport, key, version, fields))
        ((_, body),) = answers(transport.written)
        connection.connection_lost(None)
        return decode_response(key, version, body)

    async def _exchange(
        self, connection: Connection, transport: FakeTransport, key: int, version: int, fields: dict[str, Any]
    ) -> None:
        assert not is_flexible(key, version), "use a version with a simple header"
        head = struct.pack(">hhih", key, version, 1, -1)
        body = encode_request(key, version, fields)
        data = struct.pack(">i", len(head) + len(body)) + head + body
        view = connection.get_buffer(-1)
        view[: len(data)] = data
        connection.buffer_updated(len(data))
        while not transport.written:
            await self.clock.sleep(0.001)
