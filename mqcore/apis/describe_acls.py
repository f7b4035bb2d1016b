"""DescribeAcls: refused with Kafka's error for a broker without access control.

Versions: 1 adds the pattern type, 3 users as resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_acls import DescribeAclsRequest

API = Api(29, "DescribeAcls", 1, 3)

NO_ACCESS_CONTROL = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "this broker has no access control",
}


def handle(request: DescribeAclsRequest, call: Call) -> Response:
    return NO_ACCESS_CONTROL | {"resources": []}
