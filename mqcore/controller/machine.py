"""Machine: the controller. It decides facts from its image, and only `apply` changes the image.

The entries of one command are decided in order: each sees what the earlier ones take, such as names and partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from mqcore.controller import activation, config_changes, in_sync, membership, reassigning, topics
from mqcore.controller.cluster_commands import (
    Activate,
    AlterPartition,
    BrokerDisconnected,
    ElectLeaders,
    Heartbeat,
    Reassign,
    RegisterBroker,
    UnregisterBroker,
)
from mqcore.controller.commands import (
    AlterConfigs,
    ControllerAnswer,
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    ReserveProducerIds,
)
from mqcore.controller.facts import (
    ControllerFact,
    ProducerIdsReserved,
    SessionFact,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.image_rules import check_image
from mqcore.controller.sessions import ControllerRules, Sessions
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.host import Instant
from mqcore.identity import Millis
from mqcore.wire.errors import Refusal

PRODUCER_IDS_PER_BLOCK = 1000


class ControllerMachine:
    def __init__(self, defaults: TopicDefaults, rules: ControllerRules | None = None) -> None:
        self.image = ClusterImage()
        self.rules = rules or ControllerRules()
        self.sessions = Sessions(self.rules)
        self._defaults = defaults

    def decide(
        self, ticket: Ticket, command: ControllerCommand | Tick, now: Instant
    ) -> Decision[ControllerFact, ControllerAnswer]:
        facts, answer = self._facts(command, now.monotonic_ms)
        return Decision(tuple(facts), () if answer is None else ((ticket, answer),))

    def _facts(
        self, command: ControllerCommand | Tick, now_ms: int
    ) -> tuple[Sequence[ControllerFact], ControllerAnswer | None]:
        image, sessions, rules = self.image, self.sessions, self.rules
        match command:
            case Tick():
                return activation.decide_tick(image, sessions, rules, now_ms), None
            case CreateTopics():
                return topics.decide_create_topics(image, self._defaults, command)
            case DeleteTopics():
                return topics.decide_delete_topics(image, self._defaults, command)
            case CreatePartitions():
                return topics.decide_create_partitions(image, command)
            case AlterConfigs():
                return config_changes.decide_alter_configs(image, command, self._defaults.batch_limit)
            case ReserveProducerIds():
                return _decide_reserve(image, command)
            case Activate():
                return activation.decide_activate(image, command, now_ms), ()
            case RegisterBroker():
                return membership.decide_register(image, sessions, rules, command, now_ms)
            case Heartbeat():
                return membership.decide_heartbeat(image, sessions, rules, command, now_ms)
            case BrokerDisconnected():
                return membership.decide_disconnected(image, sessions, rules, command, now_ms), ()
            case UnregisterBroker():
                return membership.decide_unregister(image, command)
            case AlterPartition():
                return in_sync.decide_alter_partition(image, sessions.controller_epoch, command)
            case ElectLeaders():
                return activation.decide_elect_leaders(image, command)
            case Reassign():
                return reassigning.decide_reassign(image, command)
            case _:
                assert_never(command)

    def apply(self, fact: ControllerFact) -> None:
        if isinstance(fact, SessionFact):
            self.sessions.apply(fact, self.image)
        else:
            self.image.apply(fact)
            self.sessions.follow(fact)

    def deadline(self) -> Millis | None:
        """A cluster of one broker has no deadline: its broker has no session and no leader to give back."""
        balance_ms = self.sessions.next_balance_ms if len(self.image.brokers) > 1 else None
        return min((at for at in (self.sessions.first_end(self.image), balance_ms) if at is not None), default=None)

    def check(self) -> None:
        check_image(self.image)
        self.sessions.check(self.image)


def _decide_reserve(
    image: ClusterImage, command: ReserveProducerIds
) -> tuple[list[ControllerFact], ProducerIdBlock | Refusal]:
    registered = image.brokers.get(command.broker)
    if registered is None or command.broker_epoch not in (-1, registered.broker_epoch):
        return [], membership.stale_broker_epoch(command.broker, command.broker_epoch, image)
    first = image.next_producer_id
    reserved = ProducerIdsReserved(command.broker, registered.broker_epoch, first + PRODUCER_IDS_PER_BLOCK)
    return [reserved], ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK)
