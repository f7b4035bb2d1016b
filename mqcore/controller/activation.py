"""Machine: what the controller does by itself: at its activation, when a broker falls silent, and from time to time."""

from __future__ import annotations

from collections.abc import Iterator

from mqcore.controller.cluster_commands import Activate, Election, ElectLeaders
from mqcore.controller.commands import Outcomes
from mqcore.controller.elections import change, election_of
from mqcore.controller.facts import (
    ConfigChanged,
    ControllerActivated,
    ControllerFact,
    FeatureLevelSet,
    LeadersBalanced,
    MetadataFact,
    PartitionChanged,
    ResourceType,
)
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.membership import fence
from mqcore.controller.sessions import ControllerRules, Sessions
from mqcore.controller.setting_layers import DEFAULT_RESOURCE
from mqcore.identity import Millis
from mqcore.wire.errors import ErrorCode, Refusal

BALANCED_PARTITIONS_MAX = 1000
"""Preferred elections in one batch, as in Kafka. The rest has its turn at once."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def decide_activate(image: ClusterImage, command: Activate, now_ms: int) -> list[ControllerFact]:
    """All brokers get a full session. A new cluster gets its feature levels and its min.insync.replicas."""
    facts: list[ControllerFact] = [ControllerActivated(command.epoch, command.next_offset, Millis(now_ms))]
    facts += [
        FeatureLevelSet(feature, level) for feature, level in command.features.items() if feature not in image.features
    ]
    value = command.min_insync_replicas
    if value is not None and MIN_INSYNC_REPLICAS not in image.configs(ResourceType.BROKER, DEFAULT_RESOURCE):
        facts.append(ConfigChanged(ResourceType.BROKER, DEFAULT_RESOURCE, MIN_INSYNC_REPLICAS, value))
    return facts


def decide_tick(image: ClusterImage, sessions: Sessions, rules: ControllerRules, now_ms: int) -> list[ControllerFact]:
    """Fence one silent broker, because each fencing changes what is right for the next. Then balance leaders."""
    silent = sessions.first_silent(image, now_ms)
    if silent is not None:
        return [*fence(image, image.brokers[silent])]
    due, interval = sessions.next_balance_ms, rules.balance_interval_ms
    if due is None or interval is None or now_ms < due:
        return []
    changes = []
    for fact in _balanced(image):
        changes.append(fact)
        if len(changes) == BALANCED_PARTITIONS_MAX:
            return [*changes, LeadersBalanced(Millis(now_ms))]
    return [*changes, LeadersBalanced(Millis(now_ms + interval))]


def _balanced(image: ClusterImage) -> Iterator[PartitionChanged]:
    """Give leadership back to preferred replicas, and elect leaders where a topic now allows an unclean election."""
    for topic, partition in image.partitions():
        if partition.leader == partition.replicas[0]:
            continue
        election = Election.PREFERRED if partition.has_leader else election_of(image, topic)
        fact = change(topic.id, partition, image.is_active, election=election)
        if fact is not None:
            yield fact


def decide_elect_leaders(image: ClusterImage, command: ElectLeaders) -> tuple[list[MetadataFact], Outcomes]:
    facts: list[MetadataFact] = []
    outcomes: dict[tuple[str, int], Refusal | None] = {}
    for name, index in dict.fromkeys(command.partitions):
        topic = image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            outcomes[name, index] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
            continue
        fact = _elected(image, topic, topic.partitions[index], command.election)
        outcomes[name, index] = fact if isinstance(fact, Refusal) else None
        if not isinstance(fact, Refusal):
            facts.append(fact)
    return facts, tuple(outcomes[partition] for partition in command.partitions)


def _elected(
    image: ClusterImage, topic: TopicImage, partition: PartitionImage, election: Election
) -> PartitionChanged | Refusal:
    is_preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if is_preferred else partition.has_leader:
        why = "the preferred replica already leads" if is_preferred else "the partition has a leader"
        return Refusal(ErrorCode.ELECTION_NOT_NEEDED, why)
    fact = change(topic.id, partition, image.is_active, election=election)
    if fact is not None:
        return fact
    if is_preferred:
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "the preferred replica is not in sync or not active")
    return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is active")
