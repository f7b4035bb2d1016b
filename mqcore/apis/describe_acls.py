"""DescribeAcls: there is no access control yet, and Kafka has a word for that."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(29, "DescribeAcls", 1, 3)

NO_ACCESS_CONTROL = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "this broker has no access control",
}


def handle(request: Any, call: Call) -> Response:
    return NO_ACCESS_CONTROL | {"resources": []}
