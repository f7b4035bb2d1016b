"""Shell: from the names in a request to a partition, or the error the protocol has for its absence."""

from __future__ import annotations

from uuid import UUID

from mqcore.apis.services import Services
from mqcore.controller.image import METADATA_TOPIC, TopicImage
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode


def find_topic(services: Services, name: str | None, topic_id: UUID | None) -> TopicImage | ErrorCode:
    """By id where the version has ids, else by name."""
    if name is not None:
        return services.image.topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_id is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return services.image.topics_by_id.get(topic_id, ErrorCode.UNKNOWN_TOPIC_ID)


def find_partition(services: Services, name: str | None, topic_id: UUID | None, index: int) -> Partition | ErrorCode:
    """The partition this broker leads, or why there is none. The metadata log is nobody's to read or write."""
    if name is not None:
        found = services.partitions.get(name, index)
    else:
        found = services.partitions.by_id(topic_id, index) if topic_id is not None else None
    if found is not None and found.topic != METADATA_TOPIC:
        return found
    topic = find_topic(services, name, topic_id)
    if isinstance(topic, ErrorCode):
        return topic
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if services.config.node_id in topic.partitions[index].replicas:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
