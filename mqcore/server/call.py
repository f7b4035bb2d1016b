"""Shell: one request in progress, from the decoded request to the encoded answer."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from mqcore.apis.call import LATER
from mqcore.apis.services import Services
from mqcore.server.served_apis import ServedApi
from mqcore.wire.fast_primitives import BUFFERS, Piece
from mqcore.wire.fetch import FETCH
from mqcore.wire.frames import RequestHead, response_head
from mqcore.wire.produce import PRODUCE

log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")

WAITING_FETCH_WEIGHT = 16
"""A waiting fetch takes this many times the bytes of its request, because it is registered with each partition."""


class Origin(NamedTuple):
    """Where a request came from."""

    listener: str
    client_host: str


class CallOwner(Protocol):
    """The connection, as its calls see it."""

    when_closed: Callable[[], None] | None

    def on_answer(self, buffered_bytes: int) -> None: ...

    def end(self) -> None: ...

    def abort(self) -> None: ...


class ServerCall:
    """Implements `mqcore.apis.call.Call`. The connection queues it and then calls `run`."""

    __slots__ = (
        "_flexible",
        "_head",
        "_origin",
        "_owner",
        "_served",
        "_started_at",
        "buffered",
        "gone",
        "held_bytes",
        "pieces",
        "services",
        "version",
        "when_gone",
    )

    def __init__(
        self,
        services: Services,
        served: ServedApi,
        head: RequestHead,
        version: int,
        flexible: bool,
        origin: Origin,
    ) -> None:
        self.services = services
        self.version = version
        self.pieces: list[Piece] | None = None  # the encoded answer
        self.buffered = 0  # bytes of the answer that are in memory; slices of logs are read when they are sent
        self.held_bytes = 0  # what the connection counts for it while it waits
        self.gone = False
        self.when_gone: Callable[[], None] | None = None
        self._served = served
        self._head = head
        self._flexible = flexible
        self._origin = origin
        self._owner: CallOwner | None = None
        self._started_at = services.clock.seconds()

    @property
    def client_id(self) -> str:
        return self._head.client_id

    @property
    def client_host(self) -> str:
        return self._origin.client_host

    @property
    def listener(self) -> str:
        return self._origin.listener

    @property
    def is_from_broker(self) -> bool:
        return False  # only an Envelope says so

    @property
    def is_answered(self) -> bool:
        return self.pieces is not None

    def run(self, request: Any, owner: CallOwner) -> None:
        """Call the handler. The answer reaches `owner` now or later."""
        self._owner = owner
        response = self._served.handle(request, self)
        if response is not LATER:
            self.answer(response)

    def memory_bytes(self, request_bytes: int) -> int:
        """Memory that this call takes while it waits. Records are not counted, because they are in logs."""
        key = self._served.api.key
        request = 0 if key == PRODUCE else request_bytes * WAITING_FETCH_WEIGHT if key == FETCH else request_bytes
        return request + self.buffered

    def answer(self, response: Any) -> None:
        """`None` sends no response (Produce with acks=0)."""
        if self.gone:
            return
        assert self.pieces is None, "a call is answered once"
        assert self._owner is not None, "a call is answered after `run`"
        try:
            body = [] if response is None else self._served.encode(self.version, response)
        except Exception:
            log.exception("a response could not be encoded", extra={"api": self._served.api.name})
            self._owner.abort()
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
        self.when_gone = None  # breaks the cycle between call and handler, so the garbage collector has nothing to do
        self._served.requests.value += 1
        self._served.seconds.observe(self.services.clock.seconds() - self._started_at)
        self.buffered = buffered
        self._owner.on_answer(buffered)

    def hang_up(self) -> None:
        assert self._owner is not None, "a call hangs up after `run`"
        self._owner.end()

    def when_disconnected(self, callback: Callable[[], None]) -> None:
        assert self._owner is not None, "a handler calls it"
        self._owner.when_closed = callback

    def drop(self) -> None:
        """The client has disconnected. Tell the handler, which may stop working on the answer."""
        self.gone = True
        when_gone, self.when_gone = self.when_gone, None
        if when_gone is not None:
            when_gone()
