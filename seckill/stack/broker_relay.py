"""Shell: `python -m seckill.stack.broker_relay` carries what brokers say to each other, unless a fault holds it back.

It reads one JSON object a line and answers each with another one. The first names the routes, the later ones name the
faults that are in force from now on. The process ends with its input.

Own rules:
* A route may belong to one caller: then its address says which broker a connection comes from, also over TLS. Otherwise
  the client id of the first request says it. mqcore and Apache Kafka both put the number of the broker there. A
  connection without a number is closed.
* A cut loses nothing that was sent. As with TCP, the bytes arrive later if the connection survives; and neither the end
  of a connection nor a new connection gets through a cut.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

HOST = "127.0.0.1"
CHUNK_BYTES_MAX = 65_536
CLIENT_ID_BYTES_MAX = 1_000
_HEAD = struct.Struct(">ihhih")  # length, API key, version, correlation id, length of the client id
_NUMBER = re.compile(rb"\d+")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: closing sends RST


class Pair(NamedTuple):
    """A direction: what `source` sends to `target`, on connections of either."""

    source: int
    target: int

    @property
    def reverse(self) -> Pair:
        return Pair(self.target, self.source)


class Route(NamedTuple):
    """Connections to `port` of `host` are meant for a broker that listens on `target_port`. `source` is the broker that
    they come from; if it is 0, the first request says that."""

    broker: int
    port: int
    target_port: int
    host: str = HOST
    source: int = 0


class NotABroker(Exception):
    """The first bytes of a connection do not name the broker that sent them."""


class Relay:
    def __init__(self) -> None:
        self.cuts: frozenset[Pair] = frozenset()
        self.delays: dict[Pair, float] = {}
        self.held = 0
        self.reset = 0
        self._changed = asyncio.Event()
        self._open: dict[asyncio.StreamWriter, Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, routes: Iterable[Route]) -> None:
        for route in routes:
            await asyncio.start_server(partial(self._begin, route), route.host, route.port)

    def change(self, cuts: Iterable[Pair], delays: dict[Pair, float], reset: Iterable[Pair]) -> None:
        """Put these faults in force instead of the former ones, and reset the connections between these brokers."""
        self.cuts, self.delays = frozenset(cuts), delays
        self._changed.set()
        self._changed = asyncio.Event()
        chosen = set(reset)
        for writer, pair in list(self._open.items()):
            if chosen & {pair, pair.reverse}:
                self.reset += 1
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    # ── one connection ───────────────────────────────────────────────────────────────────────────

    def _begin(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(route, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            source, first = (route.source, b"") if route.source else await _first_bytes(reader)
            pair = Pair(source, route.broker)
            self._open[writer] = pair
            await self._pass(pair)
            await self._pass(pair.reverse)
            answers, target = await asyncio.open_connection(HOST, route.target_port)
            ends.append(target)
            self._open[target] = pair
            await self._carry(pair, (reader, writer), (answers, target), first)
        except (OSError, EOFError, NotABroker):
            pass  # one of the two has gone, so the other one is closed, too
        finally:
            for end in ends:
                self._open.pop(end, None)
                end.transport.abort()

    async def _carry(
        self,
        pair: Pair,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        called: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        first: bytes,
    ) -> None:
        """Until one direction has ended."""
        directions = [
            asyncio.ensure_future(self._pump(pair, caller[0], called[1], first)),
            asyncio.ensure_future(self._pump(pair.reverse, called[0], caller[1])),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()

    async def _pump(
        self, pair: Pair, source: asyncio.StreamReader, target: asyncio.StreamWriter, data: bytes = b""
    ) -> None:
        while True:
            with suppress(ConnectionError):  # a reset ends the connection as a close does
                data = data or await source.read(CHUNK_BYTES_MAX)
            await self._pass(pair)
            if not data:
                return
            try:
                target.write(data)
                await target.drain()
            except ConnectionError:  # the target has gone; its source hears of that when the way back is open
                await self._pass(pair.reverse)
                return
            data = b""

    async def _pass(self, pair: Pair) -> None:
        if pair in self.cuts:
            self.held += 1
        while pair in self.cuts:
            await self._changed.wait()
        if delay := self.delays.get(pair):
            self.held += 1
            await asyncio.sleep(delay)


async def _first_bytes(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The broker that a connection comes from, and the bytes that were read to find out."""
    head = await reader.readexactly(_HEAD.size)
    length = _HEAD.unpack(head)[-1]
    if not 0 < length <= CLIENT_ID_BYTES_MAX:
        raise NotABroker
    client_id = await reader.readexactly(length)
    found = _NUMBER.search(client_id)
    if found is None:
        raise NotABroker
    return int(found[0]), head + client_id


async def _run() -> None:
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    relay = Relay()
    while line := await commands.readline():
        command: dict[str, Any] = json.loads(line)
        if "routes" in command:
            await relay.listen(Route(*route) for route in command["routes"])
        else:
            delays = {Pair(source, target): seconds for source, target, seconds in command["delays"]}
            relay.change((Pair(*pair) for pair in command["cuts"]), delays, (Pair(*pair) for pair in command["reset"]))
        print(json.dumps({"held": relay.held, "reset": relay.reset}), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_run())
