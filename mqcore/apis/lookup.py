"""Shell: find the topic or partition that a request names, or the protocol's error for its absence."""

from __future__ import annotations

from uuid import UUID

from mqcore.apis.services import Services
from mqcore.controller.image import PartitionImage, TopicImage
from mqcore.identity import BrokerId, TopicPartition
from mqcore.partitions.partition import Partition
from mqcore.wire.errors import ErrorCode


def find_topic(services: Services, name: str | None, topic_id: UUID | None) -> TopicImage | ErrorCode:
    """By name, or by id if `name` is None."""
    if name is not None:
        return services.image.topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_id is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return services.image.topics_by_id.get(topic_id, ErrorCode.UNKNOWN_TOPIC_ID)


def find_partition_image(services: Services, topic: str, index: int) -> PartitionImage | None:
    """What the cluster metadata says about a partition, whichever broker leads it."""
    found = services.image.topics.get(topic)
    return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


def find_partition(services: Services, name: str | None, topic_id: UUID | None, index: int) -> Partition | ErrorCode:
    """A partition that this broker has, in whichever role."""
    if name is not None:
        found = services.partitions.get(name, index)
    else:
        found = services.partitions.by_id(topic_id, index) if topic_id is not None else None
    if found is not None:
        return found
    topic = find_topic(services, name, topic_id)
    if isinstance(topic, ErrorCode):
        return topic
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if services.config.node_id in topic.partitions[index].replicas:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def find_led_partition(services: Services, topic: str, index: int) -> Partition | ErrorCode:
    """A partition that this broker leads."""
    found = find_partition(services, topic, None, index)
    if isinstance(found, ErrorCode) or found.leads:
        return found
    return ErrorCode.KAFKA_STORAGE_ERROR if found.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER


def find_led_in_epoch(services: Services, topic: str, index: int, current_leader_epoch: int) -> Partition | ErrorCode:
    """A partition that this broker leads in the epoch that the client expects."""
    partition = find_led_partition(services, topic, index)
    if isinstance(partition, ErrorCode):
        return partition
    refusal = partition.check_leader_epoch(current_leader_epoch)
    return partition if refusal is None else refusal.error


def offline_replicas(services: Services, topic: str, partition: PartitionImage) -> tuple[BrokerId, ...]:
    """The replicas that nothing can serve: those of fenced brokers, and of this one if its log is offline."""
    brokers = services.image.brokers
    return tuple(
        replica
        for replica in partition.replicas
        if (replica in brokers and brokers[replica].fenced)
        or (replica == services.config.node_id and _is_offline_here(services, topic, partition.index))
    )


def _is_offline_here(services: Services, topic: str, index: int) -> bool:
    partition = services.partitions.get(topic, index)
    if partition is not None:
        return partition.is_offline
    return TopicPartition(topic, index) in services.partitions.open_failures
