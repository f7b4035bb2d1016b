"""DescribeProducers: the idempotent producers whose state a partition keeps. KIP-664. One version.

Left out: the start offset of an open transaction, because there are no transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_led_partition
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_producers import DescribeProducersRequest

API = Api(61, "DescribeProducers", 0, 0)


def handle(request: DescribeProducersRequest, call: Call) -> Response:
    indexes_by_topic: dict[str, set[int]] = {}  # without duplicates, which could make a huge response
    for topic in request.topics:
        indexes_by_topic.setdefault(topic.name, set()).update(topic.partition_indexes)
    return {
        "topics": [
            {"name": name, "partitions": [_partition(call, name, index) for index in sorted(indexes)]}
            for name, indexes in indexes_by_topic.items()
        ]
    }


def _partition(call: Call, topic: str, index: int) -> Response:
    partition = find_led_partition(call.services, topic, index)
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
        for producer_id, producer in partition.producers.by_id()
    ]
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": producers}
