"""SaslHandshake: always refused, because every listener is plaintext."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.sasl_handshake import SaslHandshakeRequest

API = Api(17, "SaslHandshake", 0, 1)


def handle(request: SaslHandshakeRequest, call: Call) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
