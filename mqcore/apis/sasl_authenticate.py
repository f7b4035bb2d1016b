"""SaslAuthenticate: out of place on a plaintext listener, and there are no others yet."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(36, "SaslAuthenticate", 0, 2)


def handle(request: Any, call: Call) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "this listener needs no authentication"}
