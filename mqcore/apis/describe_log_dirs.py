"""DescribeLogDirs: the data folder of the broker and the size of each partition in it.

Versions: 3 adds an error code for the whole response, 4 the free bytes of the volume. From 2 on, tagged fields of ours
say how far each replica is, if the client asks for them: some clients fail on fields that they do not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.services import Services
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_log_dirs import DescribeLogDirsRequest

API = Api(35, "DescribeLogDirs", 1, 4)


def handle(request: DescribeLogDirsRequest, call: Call) -> Response:
    services = call.services
    sizes: dict[str, list[Response]] = {}
    for partition in _requested_partitions(request, services):
        size: dict[str, int] = {
            "partition_index": partition.index,
            "partition_size": partition.size_bytes,
            "offset_lag": max(0, partition.high_watermark - partition.log_end_offset),
        }
        if request.include_offsets:
            size |= {"log_end_offset": partition.log_end_offset, "high_watermark": partition.high_watermark}
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


def _requested_partitions(request: DescribeLogDirsRequest, services: Services) -> list[Partition]:
    """The requested partitions that this broker has, without duplicates; or, if the list is null, all of them except
    the metadata log."""
    if request.topics is None:
        return [partition for partition in services.partitions if partition.topic in services.image.topics]
    found = (services.partitions.get(topic.topic, index) for topic in request.topics for index in topic.partitions)
    return list(dict.fromkeys(partition for partition in found if partition is not None))
