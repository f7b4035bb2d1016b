"""AlterReplicaLogDirs: there is one data folder, so a copy can only stay where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.describe_log_dirs import log_dir
from mqcore.apis.lookup import find_partition
from mqcore.wire.errors import ErrorCode

API = Api(34, "AlterReplicaLogDirs", 1, 2)


def handle(request: Any, call: Call) -> Response:
    results: dict[str, list[Response]] = {}
    for directory in request.dirs:
        here = Path(directory.path) == Path(log_dir(call.services))
        for topic in directory.topics:
            for index in topic.partitions:
                outcome = {"partition_index": index, "error_code": _move(call, here, topic.name, index)}
                results.setdefault(topic.name, []).append(outcome)
    return {"results": [{"topic_name": name, "partitions": partitions} for name, partitions in results.items()]}


def _move(call: Call, here: bool, topic: str, index: int) -> ErrorCode:
    if not here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = find_partition(call.services, topic, None, index)
    return partition if isinstance(partition, ErrorCode) else ErrorCode.NONE
