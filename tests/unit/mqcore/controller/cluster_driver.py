"""Drives a controller without a journal, for a cluster of some brokers, and builds its commands."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from mqcore.controller.cluster_commands import RegisterBroker, Registered
from mqcore.controller.commands import (
    Alteration,
    AlterConfigs,
    ConfigEdit,
    ControllerAnswer,
    ControllerCommand,
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    NewTopic,
    ResourceEdits,
)
from mqcore.controller.facts import Endpoint, MetadataFact, ResourceType, SessionFact
from mqcore.controller.image import ClusterImage
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.sessions import ControllerRules
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Tick, Ticket
from mqcore.identity import BrokerId
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.coordination.virtual import VirtualClock

NAMES = UUID("5f3759df-0000-4000-8000-000000000001")
TICKET = Ticket(7)
ONE_EACH = TopicDefaults(partitions=1, replication_factor=1)
NO_CONFIGS: Mapping[str, str | None] = {}

Answer = CreatedTopic | DeletedTopic | Refusal | None


class Cluster:
    """A controller whose decisions are applied immediately; its invariants are checked each time."""

    def __init__(
        self, brokers: int = 1, defaults: TopicDefaults = ONE_EACH, rules: ControllerRules | None = None
    ) -> None:
        self.machine = ControllerMachine(defaults, rules)
        self.facts: list[MetadataFact] = []
        self.clock = VirtualClock()
        self._topics_made = 0
        for broker in range(1, brokers + 1):
            self.register(broker)

    @property
    def image(self) -> ClusterImage:
        return self.machine.image

    def submit(self, command: ControllerCommand) -> tuple[Answer, ...]:
        """Decide a command, apply its facts and return one outcome for each entry."""
        answer = self.ask(command)
        assert isinstance(answer, tuple)
        return answer

    def ask(self, command: ControllerCommand) -> ControllerAnswer:
        """Decide a command, apply its facts and return its answer."""
        ((ticket, answer),) = self.decide_and_apply(command)
        assert ticket == TICKET
        return answer

    def decide_and_apply(self, command: ControllerCommand | Tick) -> tuple[tuple[Ticket, ControllerAnswer], ...]:
        decision = self.machine.decide(TICKET, command, self.clock.now())
        for fact in decision.facts:
            self.machine.apply(fact)
            if not isinstance(fact, SessionFact):
                self.facts.append(fact)
        self.machine.check()
        return decision.answers

    def errors(self, command: ControllerCommand) -> list[ErrorCode]:
        return [entry.error if isinstance(entry, Refusal) else ErrorCode.NONE for entry in self.submit(command)]

    def register(self, broker: int, host: str = "here") -> None:
        endpoints = (Endpoint("PLAINTEXT", host, 9092),)
        command = RegisterBroker(BrokerId(broker), UUID(int=broker), endpoints, None, is_only_broker=True)
        assert isinstance(self.ask(command), Registered)

    def new_id(self) -> UUID:
        self._topics_made += 1
        return uuid5(NAMES, str(self._topics_made))

    def topic(
        self,
        name: str,
        partitions: int = -1,
        replicas: int = -1,
        assignment: Mapping[int, tuple[int, ...]] | None = None,
        configs: Mapping[str, str | None] = NO_CONFIGS,
    ) -> NewTopic:
        chosen = tuple((index, tuple(map(BrokerId, brokers))) for index, brokers in (assignment or {}).items())
        return NewTopic(name, self.new_id(), partitions, replicas, chosen, configs)

    def create(self, *names: str, partitions: int = 1, configs: Mapping[str, str | None] = NO_CONFIGS) -> None:
        command = CreateTopics(tuple(self.topic(name, partitions, configs=configs) for name in names))
        assert self.errors(command) == [ErrorCode.NONE] * len(names)


def edits(
    resource: str, *changes: tuple[str, int, str | None], kind: int = ResourceType.TOPIC, replace_all: bool = False
) -> ResourceEdits:
    return ResourceEdits(kind, resource, tuple(ConfigEdit(*change) for change in changes), replace_all)


def alter(*resources: ResourceEdits, validate_only: bool = False) -> AlterConfigs:
    return AlterConfigs(resources, validate_only)


def set_to(name: str, value: str | None) -> tuple[str, int, str | None]:
    return name, Alteration.SET, value
