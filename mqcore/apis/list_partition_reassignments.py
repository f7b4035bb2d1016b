"""ListPartitionReassignments: the partitions that are moving, all of them or the named ones. One version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.controller.reassigning import reassignments
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.list_partition_reassignments import ListPartitionReassignmentsRequest

API = Api(46, "ListPartitionReassignments", 0, 0, forwarded=True)


def handle(request: ListPartitionReassignmentsRequest, call: Call) -> Response:
    named = None if request.topics is None else {t.name: set(t.partition_indexes) for t in request.topics}
    topics: dict[str, list[Response]] = {}
    for topic, partition in reassignments(call.services.image):
        if named is None or partition.index in named.get(topic.name, ()):
            moving = {
                "partition_index": partition.index,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
            topics.setdefault(topic.name, []).append(moving)
    listed = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": listed}
