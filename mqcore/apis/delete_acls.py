"""DeleteAcls: refused, one by one."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_acls import NO_ACCESS_CONTROL

API = Api(31, "DeleteAcls", 1, 3)


def handle(request: Any, call: Call) -> Response:
    return {"filter_results": [NO_ACCESS_CONTROL | {"matching_acls": []} for _ in request.filters]}
