"""DescribeQuorum: the voters of the metadata log. This broker is the only voter and the leader. KIP-595.

Versions: 1 adds the times of fetches (KIP-836), 2 the directory ids and the addresses of the voters (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.identity import METADATA_TOPIC
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_quorum import DescribeQuorumRequest

API = Api(55, "DescribeQuorum", 0, 2, forwarded=True)


def handle(request: DescribeQuorumRequest, call: Call) -> Response:
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
        return {
            "partition_index": index,
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"only partition 0 of {METADATA_TOPIC} has a quorum",
        }
    services = call.services
    partition = services.observer.partition
    voter = {
        "replica_id": services.config.node_id,
        "replica_directory_id": services.directory_id,
        "log_end_offset": partition.log_end_offset,
    }
    return {
        "partition_index": index,
        "error_code": ErrorCode.NONE,
        "leader_id": services.config.node_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "current_voters": [voter],
    }
