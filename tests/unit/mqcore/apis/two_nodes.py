"""Two nodes of a cluster with real links, connections and handlers. Bytes, time and elections move when the test says.

Node 1 leads the quorum at first. Node 2 copies its metadata log by `replicate`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, cast
from uuid import UUID

from mqcore.apis.forwarding import Forwarding
from mqcore.config import BrokerConfig
from mqcore.config_addresses import ControllerAddress
from mqcore.controller.active import ActiveController, ControllerSettings
from mqcore.controller.channel import ControllerChannel, OtherNodes
from mqcore.controller.cluster_commands import Heartbeat, RegisterBroker, Registered, new_incarnation
from mqcore.controller.commands import ControllerAnswer, ControllerCommand
from mqcore.controller.forwarder import Forwarder
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.remote import RemoteController
from mqcore.controller.sessions import ControllerRules
from mqcore.coordination.journal import JournalFault
from mqcore.identity import BrokerId, Offset
from mqcore.server.connection import Connection
from mqcore.server.context import ServerContext
from mqcore.wire.frames import request_head, response_body_start
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.records import OWN_BATCH_BYTES_MAX
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH
from tests.unit.mqcore.controller.fake_quorum import FakeQuorum
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.fake_services import services_with

CONTROLLER, CLIENTS = "CONTROLLER", "PLAINTEXT"
CLUSTER = "test-cluster"


class Pipe:
    """The transport of one end of a connection. What is written arrives at the other end in the next turn."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.other: Pipe
        self.protocol: Any = None
        self.is_open = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 5000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.clock.call_soon(partial(self.other.deliver, bytes(data)))

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def deliver(self, data: bytes) -> None:
        while data and self.is_open:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.protocol.buffer_updated(count)

    def close(self) -> None:
        for end in (self, self.other):
            if end.is_open:
                end.is_open = False
                self.clock.call_soon(partial(end.protocol.connection_lost, None))

    abort = close


class Node:
    def __init__(self, number: int, cluster: TwoNodes) -> None:
        self.id = BrokerId(number)
        self.clock = cluster.clock
        self.pipes: list[Pipe] = []  # the server's ends of its connections
        self.accepts = True
        self.quorum = FakeQuorum(self.id)
        self.observer = MetadataObserver(cast(Any, self.quorum), self.clock)
        self.observer.start()
        settings = ControllerSettings(ONE_EACH, ControllerRules(), OWN_BATCH_BYTES_MAX, {}, None)
        self.active = ActiveController(self.quorum, self.observer, self.clock, settings)
        self.active.start()
        self.remote = RemoteController(self.id, self.quorum, cluster.addresses, self.clock, cast(Any, cluster))
        self.remote.start()
        forwarder = Forwarder(self.remote, self.active, self.observer, self.clock)
        self.channel = ControllerChannel(self.active, self.observer.image, OtherNodes(self.remote, forwarder, CLUSTER))
        config = BrokerConfig(
            node_id=number,
            listeners=f"{CLIENTS}://127.0.0.1:0,{CONTROLLER}://127.0.0.1:0",
            controller_listener_names=CONTROLLER,
        )
        self.services = services_with(
            config,
            clock=self.clock,
            observer=self.observer,
            controller=self.channel,
            forwarding=Forwarding(forwarder, self.active),
            quorum=self.quorum,
            cluster_id=CLUSTER,
        )
        self._context = ServerContext.of(self.services)

    def accept(self, listener: str) -> Pipe:
        """A new connection; returns the client's end of it."""
        server, client = Pipe(self.clock), Pipe(self.clock)
        server.other, client.other = client, server
        context = self._context.of_controller() if listener == CONTROLLER else self._context
        server.protocol = Connection(context, listener)
        server.protocol.connection_made(server)
        self.pipes.append(server)
        return client


class Client:
    """A client on one connection. `answers` are the bodies of the responses."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._received = b""
        self._asked: list[tuple[int, int]] = []
        self.answers: list[Any] = []
        pipe.protocol = self

    def send(self, key: int, version: int, **request: Any) -> None:
        self._asked.append((key, version))
        frame = request_head(key, version, len(self._asked), "tester") + encode_request(key, version, request)
        self._pipe.write(struct.pack(">i", len(frame)) + frame)

    @property
    def is_connected(self) -> bool:
        return self._pipe.is_open

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = bytearray(65536)
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._buffer[:nbytes]
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            frame, self._received = self._received[4 : 4 + length], self._received[4 + length :]
            api = self._asked[len(self.answers)]
            assert struct.unpack_from(">i", frame)[0] == len(self.answers) + 1, "the correlation id of the request"
            self.answers.append(decode_response(*api, frame[response_body_start(*api) :]))

    def connection_lost(self, exc: Exception | None) -> None:
        pass


class TwoNodes:
    """Also the network between the nodes."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.addresses = {number: ControllerAddress("node", number) for number in (1, 2)}
        self.nodes = {number: Node(number, self) for number in (1, 2)}

    @property
    def one(self) -> Node:
        return self.nodes[1]

    @property
    def two(self) -> Node:
        return self.nodes[2]

    async def connect(self, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        if not self.nodes[port].accepts:
            raise OSError("connection refused")
        pipe = self.nodes[port].accept(CONTROLLER)
        pipe.protocol = make_protocol()
        pipe.protocol.connection_made(pipe)

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    async def settle(self) -> None:
        """Until nothing moves without more time."""
        for _ in range(12):
            await asyncio.sleep(0)
            self.clock.advance(0)

    async def pass_time(self, ms: int, step: int = 25) -> None:
        for _ in range(0, ms, step):
            self.clock.advance(step)
            await self.settle()

    async def elect(self, number: int) -> None:
        """The node leads from here on, and the other knows it. It has all committed records."""
        self.replicate()
        for node in self.nodes.values():
            node.quorum.elect(BrokerId(number))
        await self.settle()

    def replicate(self) -> None:
        """Each node gets what the other has committed. One of them has all of it."""
        ahead = max(self.nodes.values(), key=lambda node: node.quorum.high_watermark).quorum
        for node in self.nodes.values():
            if node.quorum is not ahead:
                node.quorum.copy(ahead)

    async def submit(self, node: Node, command: ControllerCommand) -> list[ControllerAnswer | JournalFault]:
        answers: list[ControllerAnswer | JournalFault] = []
        node.channel.submit(command, answers.append)
        await self.settle()
        return answers

    async def join(self, node: Node) -> int:
        """Register the node's broker and unfence it; returns its epoch."""
        registration = RegisterBroker(node.id, new_incarnation(1, UUID(int=1)), (), None, (UUID(int=node.id),))
        (registered,) = await self.submit(node, registration)
        assert isinstance(registered, Registered)
        await self.submit(node, Heartbeat(node.id, registered.broker_epoch, Offset(registered.broker_epoch + 1)))
        self.replicate()
        await self.settle()
        return registered.broker_epoch

    def client(self, node: Node, listener: str = CLIENTS) -> Client:
        return Client(node.accept(listener))


def in_a_loop(test: Callable[[TwoNodes], Awaitable[None]]) -> Callable[[], None]:
    """Run the test with two nodes of which the first is the active controller and both have a broker."""

    @wraps(test)
    def run() -> None:
        async def body() -> None:
            nodes = TwoNodes()
            await nodes.elect(1)
            for node in (nodes.one, nodes.two):
                await nodes.join(node)
            await test(nodes)

        asyncio.run(body())

    del run.__wrapped__  # pytest would take its argument for a fixture
    return run
