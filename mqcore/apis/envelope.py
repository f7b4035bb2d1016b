"""Envelope: a client's request that another broker has received and passes on to the active controller. KIP-590.

The response names the end of what this node had committed by then, in a tagged field of ours: the other broker passes
the answer on when it has applied that. One version. Left out: the principal says only whether a client or the broker
itself asks, because there are no users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.enveloped import serve_frame
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.envelope import EnvelopeRequest

API = Api(58, "Envelope", 0, 0)


def handle(request: EnvelopeRequest, call: Call) -> Response | Later:
    services = call.services
    if not services.controller.is_active:
        return {"error_code": ErrorCode.NOT_CONTROLLER}

    def answered(answer: bytes | ErrorCode) -> None:
        if not services.controller.is_active:  # only the next controller knows whether the command has taken effect
            call.answer({"error_code": ErrorCode.NOT_CONTROLLER})
        elif isinstance(answer, ErrorCode):
            call.answer({"error_code": answer})
        else:
            call.answer({"response_data": answer, "committed_end": services.observer.applied_end})

    client_host = request.client_host_address.decode(errors="replace")
    serve_frame(request.request_data, services, client_host, request.request_principal is None, answered)
    return LATER
