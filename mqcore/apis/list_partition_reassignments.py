"""ListPartitionReassignments: none are ever under way."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

API = Api(46, "ListPartitionReassignments", 0, 0)


def handle(request: Any, call: Call) -> Response:
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": []}
