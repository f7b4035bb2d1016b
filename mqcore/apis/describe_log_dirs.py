"""DescribeLogDirs: the one data folder, and what each partition takes there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.services import Services
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode

API = Api(35, "DescribeLogDirs", 1, 4)


def handle(request: Any, call: Call) -> Response:
    services = call.services
    sizes: dict[str, list[Response]] = {}
    for partition in _wanted(request, services):
        size = {
            "partition_index": partition.index,
            "partition_size": partition.log.size_bytes,
            "offset_lag": max(0, partition.high_watermark - partition.log.end_offset),
        }
        sizes.setdefault(partition.topic, []).append(size)
    return {
        "error_code": ErrorCode.NONE,
        "results": [
            {
                "error_code": ErrorCode.NONE,
                "log_dir": log_dir(services),
                "topics": [{"name": name, "partitions": partitions} for name, partitions in sizes.items()],
                "total_bytes": -1,
                "usable_bytes": services.free_bytes(),
            }
        ],
    }


def log_dir(services: Services) -> str:
    return str(Path(services.config.log_dirs).absolute())


def _wanted(request: Any, services: Services) -> list[Partition]:
    """Those asked for that are here, each once; without a list all but the metadata log."""
    if request.topics is None:
        return [partition for partition in services.partitions if partition.topic in services.image.topics]
    found = (services.partitions.get(topic.topic, index) for topic in request.topics for index in topic.partitions)
    return list(dict.fromkeys(partition for partition in found if partition is not None))
