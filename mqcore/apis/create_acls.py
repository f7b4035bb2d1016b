"""CreateAcls: every entry is refused, because the broker has no access control.

Versions: 1 adds the pattern type, 3 users as resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_acls import NO_ACCESS_CONTROL

if TYPE_CHECKING:
    from mqcore.wire.requests.create_acls import CreateAclsRequest

API = Api(30, "CreateAcls", 1, 3)


def handle(request: CreateAclsRequest, call: Call) -> Response:
    return {"results": [NO_ACCESS_CONTROL for _ in request.creations]}
