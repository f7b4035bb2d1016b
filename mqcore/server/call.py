"""Shell: one request under way: its place in the connection's order, and the way back."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqcore.apis.services import Services
from mqcore.wire.frames import RequestHead, response_head
from mqcore.wire.hot import BUFFERS, Piece
from mqcore.wire.produce import PRODUCE

if TYPE_CHECKING:
    from mqcore.server.connection import Connection
    from mqcore.server.dispatch import Served

log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")

FETCH = 1
FETCH_WEIGHT = 16
"""Memory of a waiting fetch, in multiples of its bytes: it watches each of its partitions."""


class ServerCall:
    """Implements `mqcore.apis.call.Call`."""

    __slots__ = (
        "_connection",
        "_flexible",
        "_head",
        "_served",
        "_started",
        "buffered",
        "gone",
        "pieces",
        "size",
        "version",
        "when_gone",
    )

    def __init__(self, connection: Connection, served: Served, head: RequestHead, version: int, flexible: bool) -> None:
        self._connection = connection
        self._served = served
        self._head = head
        self._flexible = flexible
        self._started = time.perf_counter()
        self.version = version
        self.pieces: list[Piece] | None = None
        self.size = 0  # what it holds while it waits
        self.buffered = 0  # bytes of its answer that are in memory: slices of logs are read when they are sent
        self.gone = False
        self.when_gone: Callable[[], None] | None = None

    @property
    def client_id(self) -> str:
        return self._head.client_id

    @property
    def client_host(self) -> str:
        return self._connection.client_host

    @property
    def listener(self) -> str:
        return self._connection.listener

    @property
    def services(self) -> Services:
        return self._connection.traffic.services

    @property
    def answered(self) -> bool:
        return self.pieces is not None

    def held_bytes(self, request_bytes: int) -> int:
        """What it keeps in memory while it waits: what was produced and what is fetched are in the log."""
        key = self._served.api.key
        request = 0 if key == PRODUCE else request_bytes * FETCH_WEIGHT if key == FETCH else request_bytes
        return request + self.buffered

    def answer(self, response: Any) -> None:
        """`None` stands for no answer at all (Produce with acks=0)."""
        if self.gone:
            return
        assert self.pieces is None, "a call is answered once"
        try:
            body = [] if response is None else self._served.encode(self.version, response)
        except Exception:
            log.exception("a response could not be encoded", extra={"api": self._served.api.name})
            self._connection.abort()
            return
        size = buffered = 0
        for piece in body:
            if isinstance(piece, BUFFERS):
                buffered += len(piece)
            else:
                size += piece.length
        if response is not None:
            head = response_head(self._head.correlation_id, self._flexible)
            body.insert(0, _LENGTH.pack(len(head) + size + buffered) + head)
            buffered += len(head) + _LENGTH.size
        self.pieces = body
        self.when_gone = None  # it knows the handler, and the handler this call: no work for the cycle collector
        self._served.requests.value += 1
        self._served.seconds.observe(time.perf_counter() - self._started)
        self.buffered = buffered
        self._connection.answered(buffered)

    def hang_up(self) -> None:
        self._connection.end()

    def drop(self) -> None:
        """The client is gone: whoever would answer is told, and need not."""
        self.gone = True
        when_gone, self.when_gone = self.when_gone, None
        if when_gone is not None:
            when_gone()
