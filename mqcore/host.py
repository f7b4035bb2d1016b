"""Shell: everything outside the broker that a simulation replaces: clock, disk, network, threads and random ids.

Own rule: no other module of the broker reads a clock, sets a timer, opens a socket, starts a thread or makes a random
id (tests/architecture/test_host.py). A `Broker` gets a `World`, so a test can run whole brokers in virtual time.

Monotonic time decides (sessions, timeouts, lag). Wall time is only written down (timestamps, retention), so a jump of
the wall clock neither expires a session nor fences a member.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID, uuid4

from mqcore.descriptors import raise_open_files_limit
from mqcore.disk.lock import DirectoryLock
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk
from mqcore.identity import Millis

CONNECTIONS_BACKLOG_MAX = 1024


# ── what the broker needs ────────────────────────────────────────────────────────────────────────────────


class Instant(NamedTuple):
    """The same moment on both clocks. Machines receive it as an argument and never read a clock."""

    monotonic_ms: Millis
    wall_ms: Millis


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> Instant: ...

    def wall_ms(self) -> Millis: ...

    @property
    def seconds(self) -> Callable[[], float]:
        """Reads the monotonic clock in seconds. A hot path keeps the function, which saves a look-up per call."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> Timer: ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Cancel the body after `seconds` and raise `TimeoutError`."""
        ...


StreamHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server(Protocol):
    def close(self) -> None: ...


class BoundAddress(Protocol):
    """A bound address. It accepts connections after one of the `serve…` calls."""

    @property
    def port(self) -> int: ...

    async def serve(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> Server: ...

    async def serve_streams(self, handle: StreamHandler, read_bytes_max: int) -> Server: ...

    def close(self) -> None: ...


class Network(Protocol):
    def bind(self, host: str, port: int) -> BoundAddress:
        """Take an address; port 0 takes any free port. Raises `OSError`."""
        ...

    async def connect(self, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Raises `OSError`."""
        ...

    def host_name(self) -> str: ...

    def resolve(self, host: str) -> list[str]:
        """All IP addresses of a host name. Raises `OSError` or `UnicodeError`."""
        ...


class Threads(Protocol):
    def pool(self, size: int, name: str) -> Executor:
        """A new pool; the caller shuts it down."""
        ...


class Chance(Protocol):
    def new_uuid(self) -> UUID: ...


class FolderLock(Protocol):
    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    clock: Clock
    disk: Disk
    network: Network
    threads: Threads
    chance: Chance
    lock_folder: Callable[[], FolderLock]
    """Take the data folder for this process; raises `DirectoryLocked` if another process has it."""
    open_files_max: int


# ── the real thing ───────────────────────────────────────────────────────────────────────────────────────


def real_world(data_dir: str) -> World:
    """Call it inside a running event loop, because the clock sets its timers there."""
    return World(
        SystemClock(asyncio.get_running_loop()),
        PosixDisk(data_dir),
        SystemNetwork(),
        SystemThreads(),
        SystemChance(),
        lock_folder=partial(DirectoryLock, data_dir),
        open_files_max=raise_open_files_limit(),
    )


class SystemClock:
    """The real clocks, with timers on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.seconds = time.monotonic

    def now(self) -> Instant:
        return Instant(Millis(int(self._loop.time() * 1000)), Millis(time.time_ns() // 1_000_000))

    def wall_ms(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self._loop.call_soon(callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)


class BoundSocket:
    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def serve(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(make_protocol, sock=self._socket, backlog=CONNECTIONS_BACKLOG_MAX)

    async def serve_streams(self, handle: StreamHandler, read_bytes_max: int) -> Server:
        return await asyncio.start_server(handle, sock=self._socket, limit=read_bytes_max)

    def close(self) -> None:
        self._socket.close()


class SystemNetwork:
    def bind(self, host: str, port: int) -> BoundAddress:
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return BoundSocket(bound)

    async def connect(self, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        await asyncio.get_running_loop().create_connection(make_protocol, host, port)

    def host_name(self) -> str:
        return socket.gethostname()

    def resolve(self, host: str) -> list[str]:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class SystemThreads:
    def pool(self, size: int, name: str) -> Executor:
        return ThreadPoolExecutor(size, thread_name_prefix=name)


class SystemChance:
    def new_uuid(self) -> UUID:
        return uuid4()
