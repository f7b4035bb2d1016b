"""Machine: the controller. It decides facts from its image, and only `apply` changes the image.

The entries of one command are decided in order: each sees what the earlier ones take, such as names and partitions.
"""

from __future__ import annotations

from typing import assert_never

from mqcore.controller import config_changes, topics
from mqcore.controller.commands import (
    AlterConfigs,
    ControllerAnswer,
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    RegisterBroker,
    ReserveProducerIds,
)
from mqcore.controller.config_changes import topic_config_refusal
from mqcore.controller.facts import BrokerRegistered, LeaderChanged, MetadataFact, ProducerIdsReserved, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.topics import TopicDefaults, topic_name_error
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.host import Instant
from mqcore.identity import Millis

PRODUCER_IDS_PER_BLOCK = 1000
NO_LEADER = -1


class ControllerMachine:
    def __init__(self, defaults: TopicDefaults) -> None:
        self.image = ClusterImage()
        self._defaults = defaults

    def decide(
        self, ticket: Ticket, command: ControllerCommand | Tick, now: Instant
    ) -> Decision[MetadataFact, ControllerAnswer]:
        facts, answer = self._facts(command)
        return Decision(tuple(facts), () if answer is None else ((ticket, answer),))

    def _facts(self, command: ControllerCommand | Tick) -> tuple[list[MetadataFact], ControllerAnswer | None]:
        match command:
            case Tick():
                return [], None
            case CreateTopics():
                return topics.decide_create_topics(self.image, self._defaults, command)
            case DeleteTopics():
                return topics.decide_delete_topics(self.image, self._defaults, command)
            case CreatePartitions():
                return topics.decide_create_partitions(self.image, command)
            case AlterConfigs():
                return config_changes.decide_alter_configs(self.image, command, self._defaults.batch_limit)
            case ReserveProducerIds(broker):
                first = self.image.next_producer_id
                epoch = self.image.brokers[broker].broker_epoch
                reserved = ProducerIdsReserved(broker, epoch, first + PRODUCER_IDS_PER_BLOCK)
                return [reserved], ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK)
            case RegisterBroker():
                return self._register(command), ()
            case _:
                assert_never(command)

    def apply(self, fact: MetadataFact) -> None:
        self.image.apply(fact)

    def deadline(self) -> Millis | None:
        return None

    def check(self) -> None:
        image = self.image
        assert {topic.id: topic for topic in image.topics.values()} == image.topics_by_id
        assert set(image.configured_resources(ResourceType.TOPIC)) <= set(image.topics), (
            "settings of a topic that does not exist"
        )
        for name, topic in image.topics.items():
            assert name == topic.name and topic_name_error(name) is None
            assert topic.configs == image.configs(ResourceType.TOPIC, name)
            assert topic_config_refusal(topic.configs) is None
            assert topic.partitions, f"{name} has no partitions"
            for index, partition in enumerate(topic.partitions):
                assert partition.index == index
                assert partition.replicas and set(partition.replicas) <= set(image.brokers)
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.leader in (*partition.isr, NO_LEADER)

    def _register(self, command: RegisterBroker) -> list[MetadataFact]:
        before = self.image.brokers.get(command.broker)
        epoch = 1 if before is None else before.broker_epoch + 1
        facts: list[MetadataFact] = [
            BrokerRegistered(command.broker, command.incarnation, epoch, command.endpoints, command.rack)
        ]
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                if partition.replicas == (command.broker,):
                    facts.append(LeaderChanged(topic.id, partition.index, command.broker, (command.broker,)))
        return facts
