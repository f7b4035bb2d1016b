"""SaslAuthenticate: always refused, because every listener is plaintext."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.sasl_authenticate import SaslAuthenticateRequest

API = Api(36, "SaslAuthenticate", 0, 2)


def handle(request: SaslAuthenticateRequest, call: Call) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "this listener needs no authentication"}
