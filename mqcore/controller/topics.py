"""Machine: the rules for topics and their partitions: from the image, the facts and one answer for each entry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mqcore.config import BrokerConfig
from mqcore.config_values import INT_MAX
from mqcore.controller import config_changes, placement
from mqcore.controller.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    NewTopic,
    Outcomes,
    PartitionIncrease,
)
from mqcore.controller.facts import (
    ConfigChanged,
    MetadataFact,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.image import ClusterImage, TopicImage
from mqcore.controller.placement import Replicas
from mqcore.identity import INTERNAL_TOPICS, METADATA_TOPIC
from mqcore.wire.errors import ErrorCode, Refusal

NAME_CHARACTERS_MAX = 249
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PARTITIONS_MAX = 4000
"""Partitions of one broker, as Kafka's operators recommend. Each costs three open files and a line in checkpoints."""


class TopicDefaults(NamedTuple):
    partitions: int
    replication_factor: int
    delete_enabled: bool = True
    batch_limit: int = INT_MAX

    @classmethod
    def of(cls, config: BrokerConfig) -> TopicDefaults:
        return cls(
            config.num_partitions,
            config.default_replication_factor,
            config.delete_topic_enable,
            config.socket_request_max_bytes,
        )


def decide_create_topics(
    image: ClusterImage, defaults: TopicDefaults, command: CreateTopics
) -> tuple[list[MetadataFact], Outcomes]:
    counts = Counter(topic.name for topic in command.topics)
    room = PARTITIONS_MAX - sum(len(topic.partitions) for topic in image.topics.values())
    facts: list[MetadataFact] = []
    answers: list[CreatedTopic | Refusal] = []
    collisions = {_collision_name(name): name for name in image.topics}
    for topic in command.topics:
        if counts[topic.name] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the request contains this topic twice"))
            continue
        assigned = _assign_new_topic(image, defaults, topic, collisions, command.internal)
        if not isinstance(assigned, Refusal) and len(assigned) > room:
            assigned = Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker can have at most {PARTITIONS_MAX} partitions")
        if isinstance(assigned, Refusal):
            answers.append(assigned)
            continue
        created = placement.partition_facts(image, topic.topic_id, 0, assigned)
        if isinstance(created, Refusal):
            answers.append(created)
            continue
        room -= len(assigned)
        collisions[_collision_name(topic.name)] = topic.name
        facts.append(TopicCreated(topic.name, topic.topic_id))
        for name, value in topic.configs.items():
            if value is not None:
                facts.append(ConfigChanged(ResourceType.TOPIC, topic.name, name, value))
        facts += created
        answers.append(CreatedTopic(topic.name, topic.topic_id, len(assigned), len(assigned[0])))
    return ([] if command.validate_only else facts), tuple(answers)


def decide_delete_topics(
    image: ClusterImage, defaults: TopicDefaults, command: DeleteTopics
) -> tuple[list[MetadataFact], Outcomes]:
    facts: list[MetadataFact] = []
    answers: list[DeletedTopic | Refusal] = []
    found = [_find(image, name, topic_id) for name, topic_id in command.topics]
    counts = Counter(topic.id for topic in found if isinstance(topic, TopicImage))
    for topic in found:
        if not defaults.delete_enabled:
            answers.append(Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"))
        elif isinstance(topic, Refusal):
            answers.append(topic)
        elif counts[topic.id] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the request contains this topic twice"))
        elif topic.is_internal:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"{topic.name} is an internal topic of the broker"))
        else:
            facts.append(TopicRemoved(topic.id))
            answers.append(DeletedTopic(topic.name, topic.id))
    return facts, tuple(answers)


def _find(image: ClusterImage, name: str | None, topic_id: UUID | None) -> TopicImage | Refusal:
    if (name is None) == (topic_id is None):
        return Refusal(ErrorCode.INVALID_REQUEST, "a topic must be given by its name or by its id")
    if name is not None:
        unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return image.topics.get(name, unknown)
    assert topic_id is not None
    return image.topics_by_id.get(
        topic_id, Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    )


def decide_create_partitions(image: ClusterImage, command: CreatePartitions) -> tuple[list[MetadataFact], Outcomes]:
    counts = Counter(topic.topic for topic in command.topics)
    room = PARTITIONS_MAX - sum(len(topic.partitions) for topic in image.topics.values())
    facts: list[MetadataFact] = []
    answers: list[Refusal | None] = []
    for increase in command.topics:
        topic = image.topics.get(increase.topic)
        if counts[increase.topic] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the request contains this topic twice"))
        elif topic is None:
            unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
            answers.append(unknown)
        elif topic.is_internal:  # the number of partitions decides where its keys are
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"{topic.name} is an internal topic of the broker"))
        else:
            created = _new_partitions(image, topic, increase, room)
            if isinstance(created, Refusal):
                answers.append(created)
            else:
                room -= len(created)
                facts += created
                answers.append(None)
    return ([] if command.validate_only else facts), tuple(answers)


def topic_name_error(name: str) -> str | None:
    """What is wrong with the name of a topic; None if it is valid."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > NAME_CHARACTERS_MAX:
        why = f"the length of '{name}' is longer than the max allowed length {NAME_CHARACTERS_MAX}"
    elif not LEGAL_NAME.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {why}"


def _assign_new_topic(
    image: ClusterImage, defaults: TopicDefaults, topic: NewTopic, collisions: dict[str, str], internal: bool
) -> list[Replicas] | Refusal:
    """The replicas of each partition of a new topic, or why it is refused."""
    wrong = topic_name_error(topic.name)
    if wrong:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if topic.name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if topic.name == METADATA_TOPIC or (topic.name in INTERNAL_TOPICS and not internal):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Creation of internal topic {topic.name} is prohibited.")
    other = collisions.get(_collision_name(topic.name))
    if other is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}")
    refusal = config_changes.topic_config_refusal(topic.configs, defaults.batch_limit)
    if refusal is not None:
        return refusal
    if topic.assignment:
        if topic.partitions != -1 or topic.replication_factor != -1:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "a topic must have either an assignment or numbers of partitions and replicas, not both",
            )
        by_index = dict(topic.assignment)
        if len(by_index) < len(topic.assignment) or set(by_index) != set(range(len(by_index))):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "the assignment must contain each partition once, numbered from 0 without gaps",
            )
        return _check_assignment(image, [by_index[index] for index in range(len(by_index))])
    count = defaults.partitions if topic.partitions == -1 else topic.partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    if count <= 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if count > PARTITIONS_MAX:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker can have at most {PARTITIONS_MAX} partitions")
    return placement.place(image, 0, count, factor)


def _new_partitions(
    image: ClusterImage, topic: TopicImage, increase: PartitionIncrease, room: int
) -> list[MetadataFact] | Refusal:
    assigned = _assign_new_partitions(image, topic, increase, room)
    if isinstance(assigned, Refusal):
        return assigned
    return placement.partition_facts(image, topic.id, len(topic.partitions), assigned)


def _assign_new_partitions(
    image: ClusterImage, topic: TopicImage, increase: PartitionIncrease, room: int
) -> list[Replicas] | Refusal:
    have, wanted = len(topic.partitions), increase.partitions
    if wanted <= have:
        why = f"The topic {topic.name} currently has {have} partition(s); {wanted} would not be an increase."
        same = f"Topic already has {have} partition(s)."
        return Refusal(ErrorCode.INVALID_PARTITIONS, same if wanted == have else why)
    if wanted - have > room:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker can have at most {PARTITIONS_MAX} partitions")
    factor = len(topic.partitions[0].replicas)
    if increase.assignments is None:
        return placement.place(image, have, wanted - have, factor)
    if len(increase.assignments) != wanted - have:
        why = (
            f"Attempted to add {wanted - have} additional partition(s), but only {len(increase.assignments)} "
            "assignment(s) were specified."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    if any(len(replicas) != factor for replicas in increase.assignments):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"each partition of this topic must have {factor} replicas"
        )
    return _check_assignment(image, increase.assignments)


def _check_assignment(image: ClusterImage, assignment: Sequence[Replicas]) -> list[Replicas] | Refusal:
    for replicas in assignment:
        if not replicas or len(set(replicas)) != len(replicas) or len(replicas) != len(assignment[0]):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "every partition must have the same number of replicas, on different brokers",
            )
        unknown = sorted(set(replicas) - set(image.brokers))
        if unknown:
            why = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return list(assignment)


def _collision_name(name: str) -> str:
    """Topics whose names differ only in "." and "_" would collide in metric names."""
    return name.replace(".", "_")
