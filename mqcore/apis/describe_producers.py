"""DescribeProducers: the idempotent producers that a partition remembers. KIP-664."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.wire.errors import ErrorCode

API = Api(61, "DescribeProducers", 0, 0)


def handle(request: Any, call: Call) -> Response:
    wanted: dict[str, set[int]] = {}  # each once, however often it was asked for
    for topic in request.topics:
        wanted.setdefault(topic.name, set()).update(topic.partition_indexes)
    return {
        "topics": [
            {"name": name, "partitions": [_describe(call, name, index) for index in sorted(indexes)]}
            for name, indexes in wanted.items()
        ]
    }


def _describe(call: Call, topic: str, index: int) -> Response:
    partition = find_partition(call.services, topic, None, index)
    if isinstance(partition, ErrorCode):
        return {"partition_index": index, "error_code": partition, "active_producers": []}
    producers = [
        {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last.last_sequence,
            "last_timestamp": producer.last.timestamp,
            "coordinator_epoch": -1,
        }
        for producer_id, producer in partition.producers.remembered()
    ]
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": producers}
