"""Machine: moving partitions to other brokers. KIP-455.

While a partition moves, its replicas are the wanted ones followed by those that leave. The move ends in `elections`,
when all added replicas are in sync; until then it can be cancelled or replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqcore.controller.cluster_commands import Election, Reassign, Reassignment
from mqcore.controller.commands import Outcomes
from mqcore.controller.elections import Assignment, Replicas, change
from mqcore.controller.facts import MetadataFact, PartitionChanged
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.wire.errors import ErrorCode, Refusal


def decide_reassign(image: ClusterImage, command: Reassign) -> tuple[list[MetadataFact], Outcomes]:
    facts: list[MetadataFact] = []
    outcomes: list[Refusal | None] = []
    named: set[tuple[str, int]] = set()
    for wanted in command.partitions:
        result = _decide(image, wanted, command.may_change_factor)
        if (wanted.topic, wanted.partition) in named:
            result = Refusal(ErrorCode.INVALID_REQUEST, "the request contains this partition twice")
        named.add((wanted.topic, wanted.partition))
        if isinstance(result, PartitionChanged):
            facts.append(result)
        outcomes.append(result if isinstance(result, Refusal) else None)
    return facts, tuple(outcomes)


def _decide(image: ClusterImage, wanted: Reassignment, may_change_factor: bool) -> PartitionChanged | Refusal | None:
    topic = image.topics.get(wanted.topic)
    if topic is None or not 0 <= wanted.partition < len(topic.partitions):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    partition = topic.partitions[wanted.partition]
    if wanted.replicas is None:
        return _cancel(image, topic, partition)
    refusal = _check(image, partition, wanted.replicas, may_change_factor)
    if refusal is not None:
        return refusal
    return change(topic.id, partition, image.is_active, assignment=_moving(partition, wanted.replicas))


def _cancel(image: ClusterImage, topic: TopicImage, partition: PartitionImage) -> PartitionChanged | Refusal | None:
    if not partition.is_reassigning:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress")
    before = original_replicas(partition)
    if not set(before) & set(partition.isr):
        why = "no replica that the partition had before is in sync, so going back to them would lose records"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return change(
        topic.id,
        partition,
        image.is_active,
        without=partition.adding,
        assignment=Assignment(before),
        election=Election.ONLINE,
    )


def _check(
    image: ClusterImage, partition: PartitionImage, replicas: Replicas, may_change_factor: bool
) -> Refusal | None:
    if not replicas or len(set(replicas)) < len(replicas):
        why = "a partition must have at least one replica, and each on another broker"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    unknown = sorted(set(replicas) - set(image.brokers))
    if unknown:
        why = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    factor = len(original_replicas(partition))
    if not may_change_factor and len(replicas) != factor:
        why = f"the replication factor is {factor}, and the request forbids to change it to {len(replicas)}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    return None


def _moving(partition: PartitionImage, wanted: Replicas) -> Assignment:
    """The first step towards `wanted`. It keeps the replicas from before the move, so that it can be cancelled."""
    before = original_replicas(partition)
    removing = tuple(broker for broker in partition.replicas if broker not in wanted)
    adding = tuple(broker for broker in wanted if broker not in before)
    return Assignment((*wanted, *removing), removing, adding)


def original_replicas(partition: PartitionImage) -> Replicas:
    """The replicas before the reassignment in progress, if there is one."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding)


def reassignments(image: ClusterImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """All partitions that are moving, for ListPartitionReassignments."""
    return ((topic, partition) for topic, partition in image.partitions() if partition.is_reassigning)
