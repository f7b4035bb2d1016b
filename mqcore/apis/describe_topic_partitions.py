"""DescribeTopicPartitions: topics in the order of their names, in pages of so many partitions. KIP-966.

The arrays of eligible leaders are empty, never null: Java iterates over them.
"""

from __future__ import annotations

from typing import Any

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.lookup import find_partition
from mqcore.apis.operations import EVERYTHING_WITH_A_TOPIC
from mqcore.apis.services import Services
from mqcore.controller.image import PartitionImage, TopicImage
from mqcore.controller.topics import wrong_name
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode

API = Api(75, "DescribeTopicPartitions", 0, 0)

MOST_PARTITIONS = 2000


def handle(request: Any, call: Call) -> Response:
    services = call.services
    names = sorted({topic.name for topic in request.topics} or services.image.topics)
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(0, request.cursor.partition_index)
    room = max(1, min(request.response_partition_limit, MOST_PARTITIONS))
    topics: list[Response] = []
    for name in names:
        topic = services.image.topics.get(name)
        if room == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        if topic is None:
            topics.append(_unknown(name))
            continue
        partitions = topic.partitions[first : first + room]
        topics.append(_describe(services, topic, partitions))
        if first + room < len(topic.partitions):
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first + room}}
        room -= len(partitions)
        first = 0
    return {"topics": topics, "next_cursor": None}


def _unknown(name: str) -> Response:
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if wrong_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": error, "name": name, "partitions": []}


def _describe(services: Services, topic: TopicImage, partitions: tuple[PartitionImage, ...]) -> Response:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [_partition(services, topic.name, partition) for partition in partitions],
        "topic_authorized_operations": EVERYTHING_WITH_A_TOPIC,
    }


def _partition(services: Services, topic: str, partition: PartitionImage) -> Response:
    offline = _offline(services, topic, partition.index)
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [services.config.node_id] if offline else [],
    }


def _offline(services: Services, topic: str, index: int) -> bool:
    """Is this broker's copy one that cannot be served?"""
    found = find_partition(services, topic, None, index)
    if isinstance(found, Partition):
        return found.offline is not None
    return found is ErrorCode.KAFKA_STORAGE_ERROR
