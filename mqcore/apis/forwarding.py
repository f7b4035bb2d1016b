"""Shell: a client's request that only the active controller can serve, on a broker that is not the controller.

If no controller can be reached in time, the request is served here, so its handler refuses it in its own terms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mqcore.apis.call import LATER, Call, Later
from mqcore.apis.enveloped import serve_frame
from mqcore.controller.forwarder import Forwarder, Sender
from mqcore.controller.queue import CommandTarget
from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import read_head, response_body_start

ANYBODY: Final = b"User:ANONYMOUS"
"""The principal of every client, because there are no users."""


class Forwarding:
    """`here` is the controller of this node, active or not."""

    def __init__(self, forwarder: Forwarder, here: CommandTarget) -> None:
        self._forwarder = forwarder
        self._here = here

    def forward(self, frame: bytes, call: Call) -> Later:
        """Answer the call with the body of the controller's response, which needs no encoding."""
        head = read_head(frame)

        def answered(response: bytes | ErrorCode) -> None:
            if isinstance(response, ErrorCode):
                call.hang_up()  # no response of this API can say it
                call.answer(None)
            else:
                call.answer(response[response_body_start(head.api_key, head.version) :])

        def forwarded(response: bytes | None) -> None:
            if response is not None:
                answered(response)
            else:
                services = replace(call.services, controller=self._here)
                serve_frame(frame, services, call.client_host, False, answered)

        self._forwarder.forward(frame, Sender(ANYBODY, call.client_host), forwarded)
        return LATER
