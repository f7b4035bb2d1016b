"""Shell: sends a request in an Envelope to the active controller, until one has answered it or the time is up. KIP-590.

A response is passed on once this broker has applied what the controller had committed by then, so a client finds its
own change at the broker it asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import CommandTarget
from mqcore.controller.remote import Purpose, RemoteController
from mqcore.host import Clock
from mqcore.identity import Millis, Offset
from mqcore.links.outcome import LinkFault
from mqcore.wire.errors import ErrorCode, error_code
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_response, encode_request

ENVELOPE: Final = (58, 0)
FORWARD_MS_MAX: Final = 5_000
"""Long enough for the election of a new controller. Clients that get an error try again."""
RETRY_MS: Final = 50
CATCH_UP_MS_MAX: Final = 2_000
"""A broker that is cut off from the quorum passes the response on without having applied it."""

OnForwarded = Callable[[bytes | None], None]
"""Gets the response with its head, or None if the request has to be carried out here: this node has become the active
controller, or none could be reached."""


class Sender(NamedTuple):
    """`principal` is None for a request of the broker itself."""

    principal: bytes | None
    host: str


class Forwarder:
    def __init__(self, remote: RemoteController, here: CommandTarget, observer: MetadataObserver, clock: Clock) -> None:
        self._remote = remote
        self._here = here
        self._observer = observer
        self._clock = clock

    def forward(self, frame: bytes, sender: Sender, on_forwarded: OnForwarded) -> None:
        """`on_forwarded` is called exactly once, now or later."""
        envelope = {
            "request_data": frame,
            "request_principal": sender.principal,
            "client_host_address": sender.host.encode(),
        }
        end_ms = Millis(self._clock.now().monotonic_ms + FORWARD_MS_MAX)
        self._send(encode_request(*ENVELOPE, envelope), end_ms, on_forwarded)

    def _send(self, envelope: bytes, end_ms: Millis, on_forwarded: OnForwarded) -> None:
        left_ms = end_ms - self._clock.now().monotonic_ms
        if self._here.is_active or left_ms <= 0:
            on_forwarded(None)
            return
        answered = partial(self._answered, envelope, end_ms, on_forwarded)
        self._remote.send(Purpose.FORWARDING, ENVELOPE, envelope, left_ms, answered)

    def _answered(
        self, envelope: bytes, end_ms: Millis, on_forwarded: OnForwarded, response: memoryview | LinkFault
    ) -> None:
        error, data, committed_end = _parse(response)
        if error is ErrorCode.NONE and data is not None:
            self._when_applied(committed_end, partial(on_forwarded, data))
        elif error is ErrorCode.NOT_CONTROLLER:
            self._clock.call_later(RETRY_MS, partial(self._send, envelope, end_ms, on_forwarded))
        else:
            on_forwarded(None)

    def _when_applied(self, end: Offset, then: Callable[[], None]) -> None:
        waiting = [then]

        def go_on(outcome: object = None) -> None:
            if waiting:
                timer.cancel()
                waiting.pop()()

        timer = self._clock.call_later(CATCH_UP_MS_MAX, go_on)
        self._observer.when_reached(end, go_on)


def _parse(response: memoryview | LinkFault) -> tuple[ErrorCode, bytes | None, Offset]:
    """The error, the enclosed response, and the end of what the controller had committed. A fault counts as an answer
    of a node that is not the controller: another one may be elected soon."""
    if isinstance(response, LinkFault):
        return ErrorCode.NOT_CONTROLLER, None, Offset(0)
    try:
        decoded = decode_response(*ENVELOPE, response)
        return error_code(decoded.error_code), decoded.response_data, Offset(decoded.committed_end)
    except BadFrame:
        return ErrorCode.UNKNOWN_SERVER_ERROR, None, Offset(0)
