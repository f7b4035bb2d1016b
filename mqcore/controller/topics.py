"""Machine: the rules of creating, deleting and growing topics: image in, facts and one answer an entry out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from mqcore.config import INT_MAX, BrokerConfig
from mqcore.controller import configs
from mqcore.controller.commands import (
    ControllerAnswer,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicGone,
    TopicMade,
)
from mqcore.controller.facts import (
    ConfigChanged,
    MetadataFact,
    PartitionCreated,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.image import INTERNAL_TOPICS, METADATA_TOPIC, ClusterImage, TopicImage
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.wire.errors import ErrorCode, Refusal

LONGEST_NAME = 249
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = 4000
"""Of one broker, what Kafka's operators recommend; each costs three open files and a place in every checkpoint."""

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicDefaults:
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


def create(
    image: ClusterImage, defaults: TopicDefaults, command: CreateTopics
) -> tuple[list[MetadataFact], ControllerAnswer]:
    named = Counter(topic.name for topic in command.topics)
    room = MOST_PARTITIONS - sum(len(topic.partitions) for topic in image.topics.values())
    facts: list[MetadataFact] = []
    answers: list[TopicMade | Refusal] = []
    collisions = {_collision_name(name): name for name in image.topics}
    for topic in command.topics:
        if named[topic.name] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request"))
            continue
        placed = _place(image, defaults, topic, collisions, command.internal)
        if not isinstance(placed, Refusal) and len(placed) > room:
            placed = Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker holds at most {MOST_PARTITIONS} partitions")
        if isinstance(placed, Refusal):
            answers.append(placed)
            continue
        room -= len(placed)
        collisions[_collision_name(topic.name)] = topic.name
        facts.append(TopicCreated(topic.name, topic.topic_id))
        for name, value in topic.configs.items():
            if value is not None:
                facts.append(ConfigChanged(ResourceType.TOPIC, topic.name, name, value))
        facts += _partitions(topic.topic_id, 0, placed)
        answers.append(TopicMade(topic.name, topic.topic_id, len(placed), len(placed[0])))
    return ([] if command.validate_only else facts), tuple(answers)


def delete(
    image: ClusterImage, defaults: TopicDefaults, command: DeleteTopics
) -> tuple[list[MetadataFact], ControllerAnswer]:
    facts: list[MetadataFact] = []
    answers: list[TopicGone | Refusal] = []
    found = [_find(image, name, topic_id) for name, topic_id in command.topics]
    named = Counter(topic.id for topic in found if isinstance(topic, TopicImage))
    for topic in found:
        if not defaults.delete_enabled:
            answers.append(Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"))
        elif isinstance(topic, Refusal):
            answers.append(topic)
        elif named[topic.id] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request"))
        elif topic.internal:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"{topic.name} belongs to the broker"))
        else:
            facts.append(TopicRemoved(topic.id))
            answers.append(TopicGone(topic.name, topic.id))
    return facts, tuple(answers)


def _find(image: ClusterImage, name: str | None, topic_id: UUID | None) -> TopicImage | Refusal:
    if (name is None) == (topic_id is None):
        return Refusal(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id")
    if name is not None:
        unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return image.topics.get(name, unknown)
    assert topic_id is not None
    return image.topics_by_id.get(
        topic_id, Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    )


def grow(image: ClusterImage, command: CreatePartitions) -> tuple[list[MetadataFact], ControllerAnswer]:
    named = Counter(topic.topic for topic in command.topics)
    room = MOST_PARTITIONS - sum(len(topic.partitions) for topic in image.topics.values())
    facts: list[MetadataFact] = []
    answers: list[Refusal | None] = []
    for more in command.topics:
        topic = image.topics.get(more.topic)
        if named[more.topic] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request"))
        elif topic is None:
            unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
            answers.append(unknown)
        elif topic.internal:  # its keys are spread by the number of partitions
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, f"{topic.name} belongs to the broker"))
        else:
            placed = _more(image, topic, more, room)
            if isinstance(placed, Refusal):
                answers.append(placed)
            else:
                room -= len(placed)
                facts += _partitions(topic.id, len(topic.partitions), placed)
                answers.append(None)
    return ([] if command.validate_only else facts), tuple(answers)


def wrong_name(name: str) -> str | None:
    """What is wrong with a topic's name; None if nothing."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > LONGEST_NAME:
        why = f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    elif not LEGAL_NAME.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {why}"


def _place(
    image: ClusterImage, defaults: TopicDefaults, topic: NewTopic, collisions: dict[str, str], internal: bool
) -> list[Replicas] | Refusal:
    """The replicas of each partition of a new topic, or why it is refused."""
    wrong = wrong_name(topic.name)
    if wrong:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if topic.name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if topic.name == METADATA_TOPIC or (topic.name in INTERNAL_TOPICS and not internal):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Creation of internal topic {topic.name} is prohibited.")
    other = collisions.get(_collision_name(topic.name))
    if other is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}")
    refusal = configs.check_topic(topic.configs, defaults.batch_limit)
    if refusal is not None:
        return refusal
    if topic.assignment:
        if topic.partitions != -1 or topic.replication_factor != -1:
            return Refusal(ErrorCode.INVALID_REQUEST, "either an assignment or numbers, not both")
        by_index = dict(topic.assignment)
        if len(by_index) < len(topic.assignment) or set(by_index) != set(range(len(by_index))):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0, without gaps, each once"
            )
        return _check_assignment(image, [by_index[index] for index in range(len(by_index))])
    count = defaults.partitions if topic.partitions == -1 else topic.partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    if count <= 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if count > MOST_PARTITIONS:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker holds at most {MOST_PARTITIONS} partitions")
    return _spread(image, 0, count, factor)


def _more(image: ClusterImage, topic: TopicImage, more: MorePartitions, room: int) -> list[Replicas] | Refusal:
    have = len(topic.partitions)
    if more.count <= have:
        why = f"The topic {topic.name} currently has {have} partition(s); {more.count} would not be an increase."
        same = f"Topic already has {have} partition(s)."
        return Refusal(ErrorCode.INVALID_PARTITIONS, same if more.count == have else why)
    if more.count - have > room:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"a broker holds at most {MOST_PARTITIONS} partitions")
    factor = len(topic.partitions[0].replicas)
    if more.assignments is None:
        return _spread(image, have, more.count - have, factor)
    if len(more.assignments) != more.count - have:
        why = (
            f"Attempted to add {more.count - have} additional partition(s), but only {len(more.assignments)} "
            "assignment(s) were specified."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    if any(len(replicas) != factor for replicas in more.assignments):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the topic has {factor} replicas a partition")
    return _check_assignment(image, more.assignments)


def _check_assignment(image: ClusterImage, assignment: Sequence[Replicas]) -> list[Replicas] | Refusal:
    for replicas in assignment:
        if not replicas or len(set(replicas)) != len(replicas) or len(replicas) != len(assignment[0]):
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "equally many different brokers for each partition")
        unknown = sorted(set(replicas) - set(image.brokers))
        if unknown:
            why = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return list(assignment)


def _spread(image: ClusterImage, first: int, count: int, factor: int) -> list[Replicas] | Refusal:
    """Leaders in turn, followers next to them."""
    brokers = sorted(image.brokers)
    if factor <= 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if factor > len(brokers):
        message = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(brokers)} broker(s) are registered."
        )
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return [
        tuple(brokers[(index + step) % len(brokers)] for step in range(factor)) for index in range(first, first + count)
    ]


def _partitions(topic_id: UUID, first: int, placed: Iterable[Replicas]) -> list[MetadataFact]:
    return [
        PartitionCreated(topic_id, index, replicas, replicas, replicas[0], LeaderEpoch(0), 0)
        for index, replicas in enumerate(placed, first)
    ]


def _collision_name(name: str) -> str:
    """Metric names cannot tell "." from "_"."""
    return name.replace(".", "_")
