"""Shell: creates the topics in which the broker keeps its own state, when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mqcore.controller.commands import ControllerAnswer, CreateTopics, NewTopic
from mqcore.controller.image import ClusterImage
from mqcore.controller.queue import CommandTarget
from mqcore.coordination.journal import JournalFault
from mqcore.host import Chance
from mqcore.wire.errors import ErrorCode, Refusal


class InternalTopic(NamedTuple):
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


class InternalTopics:
    """`topics`: the topics that this broker creates, by name."""

    def __init__(
        self, topics: Mapping[str, InternalTopic], image: ClusterImage, controller: CommandTarget, chance: Chance
    ) -> None:
        self._topics = topics
        self._image = image
        self._controller = controller
        self._chance = chance

    def __contains__(self, name: object) -> bool:
        return name in self._topics

    def ensure(self, name: str, on_result: Callable[[ErrorCode], None]) -> None:
        """Create the topic if it does not exist. `on_result` gets NONE, or the reason why there is no such topic."""
        if name in self._image.topics:
            on_result(ErrorCode.NONE)
            return
        active = sum(broker.is_active for broker in self._image.brokers.values())
        if active < self._topics[name].replication_factor:  # in a cluster that has just started, others will follow
            on_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        topic = NewTopic(
            name,
            self._chance.new_uuid(),
            self._topics[name].partitions,
            self._topics[name].replication_factor,
            configs=self._topics[name].configs,
        )
        self._controller.submit(CreateTopics((topic,), internal=True), lambda answer: on_result(_error_of(answer)))


def _error_of(answer: ControllerAnswer | JournalFault) -> ErrorCode:
    if not isinstance(answer, tuple):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    (outcome,) = answer
    if not isinstance(outcome, Refusal) or outcome.error is ErrorCode.TOPIC_ALREADY_EXISTS:
        return ErrorCode.NONE
    if outcome.error is ErrorCode.INVALID_REPLICATION_FACTOR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # brokers are missing, so the client should try again
    return outcome.error
