"""DescribeQuorum: the voters and observers of the metadata log, as their leader sees them. KIP-595.

Versions: 1 adds the times of fetches (KIP-836), 2 the directory ids and the addresses of the voters (KIP-853).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.services import Services
from mqcore.identity import METADATA_TOPIC
from mqcore.raft.description import ReplicaDescription
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_quorum import DescribeQuorumRequest

API = Api(55, "DescribeQuorum", 0, 2, forwarded=True)


def handle(request: DescribeQuorumRequest, call: Call) -> Response:
    return {
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [_partition(call, topic.topic_name, each.partition_index) for each in topic.partitions],
            }
            for topic in request.topics
        ],
        "nodes": _nodes(call.services),
    }


def _nodes(services: Services) -> list[Response]:
    """The addresses of the voters. The only voter has none for other controllers, so its listeners are shown."""
    config = services.config
    voters = config.voters()
    if len(voters) > 1:
        name = config.controller_listener
        return [
            {"node_id": node, "listeners": [{"name": name, "host": address.host, "port": address.port}]}
            for node, address in voters.items()
        ]
    endpoints = [
        {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
        for broker in services.image.brokers.values()
        if broker.broker == config.node_id
        for endpoint in broker.endpoints
    ]
    return [{"node_id": config.node_id, "listeners": endpoints}]


def _partition(call: Call, topic: str, index: int) -> Response:
    if (topic, index) != (METADATA_TOPIC, 0):
        return {
            "partition_index": index,
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"only partition 0 of {METADATA_TOPIC} has a quorum",
        }
    quorum = call.services.quorum
    if not quorum.leads:
        return {
            "partition_index": index,
            "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "error_message": "only the leader of the quorum can describe it",
        }
    described = quorum.describe()
    return {
        "partition_index": index,
        "error_code": ErrorCode.NONE,
        "leader_id": described.leader,
        "leader_epoch": described.epoch,
        "high_watermark": described.high_watermark,
        "current_voters": _replicas(described.voters),
        "observers": _replicas(described.observers),
    }


def _replicas(replicas: Iterable[ReplicaDescription]) -> list[Response]:
    return [
        {
            "replica_id": replica.key.id,
            "replica_directory_id": replica.key.directory,
            "log_end_offset": replica.end,
            "last_fetch_timestamp": replica.fetched_at_ms,
            "last_caught_up_timestamp": replica.caught_up_at_ms,
        }
        for replica in replicas
    ]
