"""A network between simulated processes: connections with delay, that break with their process or wait behind a cut."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol, cast

from mqcore.host import Server, StreamHandler

MakeProtocol = Callable[[], asyncio.BaseProtocol]
Address = tuple[str, int]

DELAY_MS = (0, 0, 0, 1, 1, 2)


class Process(Protocol):
    """An end of connections: a node or a client."""

    name: str
    is_paused: bool

    def run(self, action: Callable[[], None]) -> None:
        """Run code of this process."""
        ...


class SimTransport(asyncio.Transport):
    """One direction and its protocol. What is written arrives at the other end in order, after a delay."""

    def __init__(self, network: SimNetwork, owner: Process, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.owner = owner
        self.protocol = protocol
        self.peer: SimTransport | None = None
        self.is_closed = False
        self._network = network
        self._incoming = bytearray()
        self._is_reading = True
        self._last_arrival = 0.0

    # ── what the protocol calls ──────────────────────────────────────────────────────────────────

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer.owner.name if self.peer else "?", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: Any) -> None:
        peer = self.peer
        if not self.is_closed and peer is not None:
            content = bytes(data)
            self._send(lambda: peer.receive(content))

    def writelines(self, list_of_data: Sequence[Any]) -> None:  # type: ignore[override]
        self.write(b"".join(bytes(part) for part in list_of_data))

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(ConnectionResetError("reset by peer"))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._network.after(0, self.owner, self._deliver)

    # ── what the network does ────────────────────────────────────────────────────────────────────

    def _send(self, action: Callable[[], None]) -> None:
        assert self.peer is not None
        at = max(self._network.now_ms + self._network.delay(), self._last_arrival)
        self._last_arrival = at
        self._network.deliver(at, self.owner, self.peer.owner, action)

    def _end(self, reason: Exception | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        peer = self.peer
        if peer is not None:
            self._send(lambda: peer.lost(reason))
        self._network.after(0, self.owner, lambda: self.protocol.connection_lost(None))

    def receive(self, data: bytes) -> None:
        if not self.is_closed:
            self._incoming += data
            self._deliver()

    def _deliver(self) -> None:
        protocol = cast(asyncio.BufferedProtocol, self.protocol)
        while self._incoming and self._is_reading and not self.is_closed:
            target = cast(memoryview, protocol.get_buffer(-1))
            count = min(len(target), len(self._incoming))
            target[:count] = self._incoming[:count]
            del self._incoming[:count]
            protocol.buffer_updated(count)

    def lost(self, reason: Exception | None) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.protocol.connection_lost(reason)


class SimAddress:
    def __init__(self, network: SimNetwork, owner: Process, host: str, port: int) -> None:
        self.port = port
        self.owner = owner
        self.make_protocol: MakeProtocol | None = None
        self._network = network
        self._address = host, port

    async def serve(self, make_protocol: MakeProtocol) -> Server:
        self.make_protocol = make_protocol
        self._network.open[self._address] = self
        return self

    async def serve_streams(self, handle: StreamHandler, read_bytes_max: int) -> Server:
        raise NotImplementedError

    def close(self) -> None:
        self._network.open.pop(self._address, None)


class SimNetwork:
    """`cut` holds pairs (from, to) whose bytes wait until the cut is healed."""

    def __init__(self, random: Random) -> None:
        self.now_ms = 0
        self.open: dict[Address, SimAddress] = {}
        self.cut: set[tuple[str, str]] = set()
        self.delivered = 0
        self._random = random
        self._events: list[tuple[float, int, str, str, Process, Callable[[], None]]] = []
        self._count = 0
        self._transports: list[SimTransport] = []

    def delay(self) -> int:
        return self._random.choice(DELAY_MS)

    def deliver(self, at: float, source: Process, target: Process, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, source.name, target.name, target, action))

    def after(self, delay_ms: int, owner: Process, action: Callable[[], None]) -> None:
        """The owner's own work, which no cut holds up."""
        self.deliver(self.now_ms + delay_ms, owner, owner, action)

    @property
    def next_ms(self) -> float | None:
        return self._events[0][0] if self._events else None

    def run_due(self) -> None:
        """Deliver what has arrived. What a cut or a frozen process holds up is tried again in a millisecond."""
        held = []
        while self._events and self._events[0][0] <= self.now_ms:
            event = heapq.heappop(self._events)
            _, _, source, target, process, action = event
            if process.is_paused or (source, target) in self.cut:
                held.append(event)
                continue
            self.delivered += 1
            process.run(action)
        for at, count, source, target, process, action in held:
            heapq.heappush(self._events, (max(at, self.now_ms + 1), count, source, target, process, action))

    def connect(self, owner: Process, address: Address, make_protocol: MakeProtocol) -> SimTransport:
        listener = self.open.get(address)
        if listener is None or listener.make_protocol is None:
            raise ConnectionRefusedError(f"nothing listens at {address[0]}:{address[1]}")
        ours = SimTransport(self, owner, make_protocol())
        theirs = SimTransport(self, listener.owner, listener.make_protocol())
        ours.peer, theirs.peer = theirs, ours
        self._transports = [each for each in self._transports if not each.is_closed]
        self._transports += [ours, theirs]
        ours.protocol.connection_made(ours)
        ours._send(lambda: theirs.protocol.connection_made(theirs))
        return ours

    def died(self, process: Process) -> None:
        """The system closes the connections and addresses of a process that has ended."""
        for address, listener in list(self.open.items()):
            if listener.owner is process:
                del self.open[address]
        self._events = [event for event in self._events if event[4] is not process]
        heapq.heapify(self._events)
        for transport in self._transports:
            if transport.owner is process and not transport.is_closed:
                transport.is_closed = True
                if transport.peer is not None:
                    transport._send(partial(transport.peer.lost, ConnectionResetError("the process has died")))


class NodeNetwork:
    """The network as one process sees it."""

    def __init__(self, network: SimNetwork, owner: Process) -> None:
        self._network = network
        self._owner = owner

    def bind(self, host: str, port: int) -> SimAddress:
        if (host, port) in self._network.open:
            raise OSError(f"{host}:{port} is taken")
        return SimAddress(self._network, self._owner, host, port)

    async def connect(self, host: str, port: int, make_protocol: MakeProtocol) -> None:
        self._network.connect(self._owner, (host, port), make_protocol)

    def host_name(self) -> str:
        return self._owner.name

    def resolve(self, host: str) -> list[str]:
        return ["127.0.0.1"]
