"""DescribeTopicPartitions: topics in the order of their names, in pages limited by partitions. KIP-966. One version.

Left out: eligible leader replicas. Their arrays are empty and not null, because Java's client iterates over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import offline_replicas
from mqcore.apis.operations import ALL_TOPIC_OPERATIONS
from mqcore.apis.services import Services
from mqcore.controller.image import PartitionImage, TopicImage
from mqcore.controller.topics import topic_name_error
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_topic_partitions import DescribeTopicPartitionsRequest

API = Api(75, "DescribeTopicPartitions", 0, 0)

PARTITIONS_MAX = 2000


def handle(request: DescribeTopicPartitionsRequest, call: Call) -> Response:
    services = call.services
    names = sorted({topic.name for topic in request.topics} or services.image.topics)
    first = 0
    if request.cursor is not None:
        cursor = request.cursor
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            first = max(0, cursor.partition_index)
    room = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[Response] = []
    for name in names:
        topic = services.image.topics.get(name)
        if room == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        if topic is None:
            topics.append(_unknown_topic(name))
            continue
        partitions = topic.partitions[first : first + room]
        topics.append(_topic(services, topic, partitions))
        if first + room < len(topic.partitions):
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first + room}}
        room -= len(partitions)
        first = 0
    return {"topics": topics, "next_cursor": None}


def _unknown_topic(name: str) -> Response:
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": error, "name": name, "partitions": []}


def _topic(services: Services, topic: TopicImage, partitions: tuple[PartitionImage, ...]) -> Response:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(services, topic.name, partition) for partition in partitions],
        "topic_authorized_operations": ALL_TOPIC_OPERATIONS,
    }


def _partition(services: Services, topic: str, partition: PartitionImage) -> Response:
    offline = offline_replicas(services, topic, partition)
    has_leader = partition.has_leader and partition.leader not in offline
    return {
        "error_code": ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": offline,
    }
