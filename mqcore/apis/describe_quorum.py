"""DescribeQuorum: who votes on the metadata log. One voter, this broker, which leads. KIP-595, KIP-836, KIP-853."""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.controller.image import METADATA_TOPIC
from mqcore.wire.errors import ErrorCode

API = Api(55, "DescribeQuorum", 0, 2)


def handle(request: Any, call: Call) -> Response:
    node = call.services.config.node_id
    endpoints = [
        {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
        for broker in call.services.image.brokers.values()
        if broker.broker == node
        for endpoint in broker.endpoints
    ]
    return {
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [_partition(call, topic.topic_name, each.partition_index) for each in topic.partitions],
            }
            for topic in request.topics
        ],
        "nodes": [{"node_id": node, "listeners": endpoints}],
    }


def _partition(call: Call, topic: str, index: int) -> Response:
    if (topic, index) != (METADATA_TOPIC, 0):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {"partition_index": index, "error_code": unknown, "error_message": "only metadata have a quorum"}
    services = call.services
    partition = services.observer.partition
    voter = {
        "replica_id": services.config.node_id,
        "replica_directory_id": services.directory_id,
        "log_end_offset": partition.log.end_offset,
    }
    return {
        "partition_index": index,
        "error_code": ErrorCode.NONE,
        "leader_id": services.config.node_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "current_voters": [voter],
    }
