"""AlterReplicaLogDirs: accepted only if the replica stays where it is, because there is one data folder.

Versions: all have the same fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_log_dirs import log_dir
from mqcore.apis.lookup import find_partition
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.alter_replica_log_dirs import AlterReplicaLogDirsRequest

API = Api(34, "AlterReplicaLogDirs", 1, 2)


def handle(request: AlterReplicaLogDirsRequest, call: Call) -> Response:
    results: dict[str, list[Response]] = {}
    for directory in request.dirs:
        is_ours = Path(directory.path) == Path(log_dir(call.services))
        for topic in directory.topics:
            for index in topic.partitions:
                result = {"partition_index": index, "error_code": _move_error(call, is_ours, topic.name, index)}
                results.setdefault(topic.name, []).append(result)
    return {"results": [{"topic_name": name, "partitions": partitions} for name, partitions in results.items()]}


def _move_error(call: Call, is_ours: bool, topic: str, index: int) -> ErrorCode:
    if not is_ours:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = find_partition(call.services, topic, None, index)
    return partition if isinstance(partition, ErrorCode) else ErrorCode.NONE
