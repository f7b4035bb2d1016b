"""Machine: what the APIs of the quorum share: they pass a request to it, and answer with what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqcore.apis.call import LATER, Call, Later, Response
from mqcore.raft import codec
from mqcore.raft.messages import Request
from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import BadFrame


def pass_on(api: codec.Api, message: Any, call: Call, decode: Callable[[Any], Request]) -> Response | Later:
    """Pass a message to the quorum. One of another cluster is refused before its content is looked at."""
    if message.cluster_id not in (None, call.services.cluster_id):
        return {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID}
    try:
        request = decode(message)
    except BadFrame:
        return {"error_code": ErrorCode.INVALID_REQUEST}
    call.services.quorum.receive(request, lambda response: call.answer(codec.encode_response(api, response)))
    return LATER
