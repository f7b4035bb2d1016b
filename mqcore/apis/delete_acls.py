"""DeleteAcls: every entry is refused, because the broker has no access control.

Versions: 1 adds the pattern type, 3 users as resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_acls import NO_ACCESS_CONTROL

if TYPE_CHECKING:
    from mqcore.wire.requests.delete_acls import DeleteAclsRequest

API = Api(31, "DeleteAcls", 1, 3)


def handle(request: DeleteAclsRequest, call: Call) -> Response:
    return {"filter_results": [NO_ACCESS_CONTROL | {"matching_acls": []} for _ in request.filters]}
