"""SaslHandshake: out of place on a plaintext listener, and there are no others yet."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(17, "SaslHandshake", 0, 1)


def handle(request: Any, call: Call) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
