"""ListPartitionReassignments: always empty, because partitions are never moved. One version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.list_partition_reassignments import ListPartitionReassignmentsRequest

API = Api(46, "ListPartitionReassignments", 0, 0)


def handle(request: ListPartitionReassignmentsRequest, call: Call) -> Response:
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": []}
