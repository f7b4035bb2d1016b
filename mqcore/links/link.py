"""Shell: requests to one other broker, over one connection that is made when it is needed.

Responses come in the order of the requests. If one is late, the connection is closed, because nothing behind it could
come either. A request is sent once: only its sender knows whether it may be repeated.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from mqcore.host import Clock, Network, Timer
from mqcore.identity import Millis
from mqcore.links.connection import LinkConnection
from mqcore.links.outcome import LinkFault
from mqcore.wire.frames import is_flexible, skip_tags

CONNECT_SECONDS_MAX: Final = 3
BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 1000

_HEAD = struct.Struct(">ihhih")  # length, API key, version, correlation id, length of the client id
_CORRELATION_ID = struct.Struct(">i")

OnResponse = Callable[[memoryview | LinkFault], None]


class _Request(NamedTuple):
    frame: bytes
    correlation_id: int
    is_flexible: bool
    deadline_ms: Millis
    on_response: OnResponse


class Link:
    """`address` returns where the broker is now, or None if that is not known. `on_lost` is called when an established
    connection breaks: a process that dies closes its connections."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        address: Callable[[], tuple[str, int] | None],
        client_id: str,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._network = network
        self._address = address
        self._client_id = client_id.encode()
        self._on_lost = on_lost
        self._last_id = 0
        self._unsent: deque[_Request] = deque()  # while the connection is being made
        self._sent: deque[_Request] = deque()
        self._connection: LinkConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff_ms = 0
        self._closed_until_ms = 0
        self._timer: Timer | None = None

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def send(self, key: int, version: int, body: bytes, timeout_ms: int, on_response: OnResponse) -> None:
        """`on_response` gets the body of the response, or the fault; it is called exactly once, and later."""
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        flexible = is_flexible(key, version)
        tags = b"\0" if flexible else b""
        length = _HEAD.size - 4 + len(self._client_id) + len(tags) + len(body)
        head = _HEAD.pack(length, key, version, self._last_id, len(self._client_id))
        now_ms = self._clock.now().monotonic_ms
        request = _Request(
            b"".join((head, self._client_id, tags, body)),
            self._last_id,
            flexible,
            Millis(now_ms + timeout_ms),
            on_response,
        )
        if self._connection is None and now_ms < self._closed_until_ms:
            self._clock.call_soon(partial(on_response, LinkFault("the broker could not be reached a moment ago")))
            return
        if self._connection is not None:
            self._sent.append(request)
            self._connection.write(request.frame)
        else:
            self._unsent.append(request)
            if self._connecting is None:
                self._connecting = asyncio.ensure_future(self._connect())
        self._watch()

    async def _connect(self) -> None:
        made: list[LinkConnection] = []

        def make() -> LinkConnection:
            connection = LinkConnection(self._on_frame, lambda reason: self._lost(connection, reason))
            made.append(connection)
            return connection

        address = self._address()
        try:
            if address is None:
                raise OSError("the address of the broker is not known")
            async with self._clock.timeout(CONNECT_SECONDS_MAX):
                await self._network.connect(*address, make)
            if not made[-1].is_open:
                raise OSError("the connection was closed at once")
        except (OSError, TimeoutError) as error:
            self._connecting = None
            self._back_off()
            self._fail(LinkFault(str(error) or "the connection could not be made in time"))
            return
        self._connecting = None
        self._connection = made[-1]
        unsent, self._unsent = self._unsent, deque()
        self._sent.extend(unsent)
        for request in unsent:
            self._connection.write(request.frame)

    def _on_frame(self, frame: memoryview) -> None:
        request = self._sent.popleft() if self._sent else None
        if request is None or _CORRELATION_ID.unpack_from(frame)[0] != request.correlation_id:
            if request is not None:
                self._sent.appendleft(request)
            if self._connection is not None:
                self._connection.abort()  # what comes in cannot be assigned to requests any more
            return
        self._backoff_ms = 0
        start = _CORRELATION_ID.size
        request.on_response(frame[skip_tags(frame, start) if request.is_flexible else start :])
        self._watch()

    def _lost(self, connection: LinkConnection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._back_off()
        self._fail(LinkFault(reason))
        self._on_lost()

    def _back_off(self) -> None:
        self._backoff_ms = min(max(2 * self._backoff_ms, BACKOFF_MS_MIN), BACKOFF_MS_MAX)
        self._closed_until_ms = self._clock.now().monotonic_ms + self._backoff_ms

    def _fail(self, fault: LinkFault) -> None:
        failed = (*self._sent, *self._unsent)
        self._sent.clear()
        self._unsent.clear()
        self._watch()
        for request in failed:
            self._clock.call_soon(partial(request.on_response, fault))

    def _watch(self) -> None:
        """Set the timer for the earliest deadline."""
        deadline_ms = min((request.deadline_ms for request in (*self._sent, *self._unsent)), default=None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_ms = deadline_ms - self._clock.now().monotonic_ms
            self._timer = self._clock.call_later(max(delay_ms, 0), self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        self._disconnect("no response in time")

    def close(self) -> None:
        """Open requests fail; a later one connects again."""
        self._disconnect("this broker has closed the connection")

    def _disconnect(self, reason: str) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._fail(LinkFault(reason))
