"""Shell: a request that came in a frame of its own, outside a connection: in an Envelope, or back from forwarding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mqcore.apis.call import LATER
from mqcore.apis.services import Services
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.frames import BadFrame, RequestHead, is_flexible, read_head, response_head

log = logging.getLogger(__name__)

OnAnswer = Callable[[bytes | ErrorCode], None]
"""Gets the response with its head, or the error that prevents one."""


class EnvelopedCall:
    """Implements `mqcore.apis.call.Call`."""

    listener = ""
    when_gone: Callable[[], None] | None = None

    def __init__(
        self,
        services: Services,
        head: RequestHead,
        encode: Callable[[int, Any], list[Piece]],
        client_host: str,
        is_from_broker: bool,
        on_answer: OnAnswer,
    ) -> None:
        self.services = services
        self.version = head.version
        self.client_id = head.client_id
        self.client_host = client_host
        self.is_from_broker = is_from_broker
        self._head = head
        self._encode = encode
        self._on_answer: OnAnswer | None = on_answer

    def answer(self, response: Any) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is None:  # it has hung up
            return
        try:
            body = b"".join(self._encode(self.version, response))  # type: ignore[arg-type]  # no slices of logs
        except Exception:
            log.exception("a response could not be encoded", extra={"api_key": self._head.api_key})
            on_answer(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        flexible = is_flexible(self._head.api_key, self.version)
        on_answer(response_head(self._head.correlation_id, flexible) + body)

    def hang_up(self) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(ErrorCode.UNKNOWN_SERVER_ERROR)

    def when_disconnected(self, callback: Callable[[], None]) -> None:
        raise AssertionError("the client of an enveloped request has no connection to this node")


def serve_frame(
    frame: bytes | memoryview, services: Services, client_host: str, is_from_broker: bool, on_answer: OnAnswer
) -> None:
    """Serve a request that brokers forward. `on_answer` is called exactly once, now or later."""
    from mqcore.apis.table import TABLE  # the table imports the API that calls this function

    try:
        head = read_head(frame)
        entry = TABLE.get(head.api_key)
        if entry is None or not entry.api.forwarded:
            on_answer(ErrorCode.INVALID_REQUEST)
            return
        if not entry.api.first_version <= head.version <= entry.api.last_version:
            on_answer(ErrorCode.UNSUPPORTED_VERSION)
            return
        request = entry.decode(head.version, memoryview(frame), head.body_start)
    except BadFrame:
        on_answer(ErrorCode.INVALID_REQUEST)
        return
    call = EnvelopedCall(services, head, entry.encode, client_host, is_from_broker, on_answer)
    try:
        response = entry.handle(request, call)
    except Exception:
        log.exception("a forwarded request could not be served", extra={"api": entry.api.name, "client": client_host})
        call.hang_up()
        return
    if response is not LATER:
        call.answer(response)
