"""CreateAcls: refused, one by one."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_acls import NO_ACCESS_CONTROL

API = Api(30, "CreateAcls", 1, 3)


def handle(request: Any, call: Call) -> Response:
    return {"results": [NO_ACCESS_CONTROL for _ in request.creations]}
