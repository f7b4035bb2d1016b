"""The topics of the broker itself are created when they are first needed."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.controller.facts import BrokerRegistered, ControllerFact, SessionFact
from mqcore.controller.image import ClusterImage
from mqcore.controller.internal_topics import InternalTopic, InternalTopics
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.queue import Controller
from mqcore.host import Chance
from mqcore.identity import OFFSETS_TOPIC, BrokerId
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH, Cluster
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock


class CountedIds(Chance):
    def __init__(self) -> None:
        self.count = 0

    def new_uuid(self) -> UUID:
        self.count += 1
        return UUID(int=self.count)


class Broker:
    def __init__(self, replication_factor: int = 1) -> None:
        self.journal = MemoryJournal[ControllerFact]()
        self.machine = ControllerMachine(ONE_EACH)
        self.image = ClusterImage()  # of the broker: it learns of a topic later than the controller
        for fact in Cluster().facts:
            self.machine.apply(fact)
            self.image.apply(fact)
        controller = Controller(self.machine, self.journal, VirtualClock())
        topic = InternalTopic(3, replication_factor, {"cleanup.policy": "compact"})
        self.topics = InternalTopics({OFFSETS_TOPIC: topic}, self.image, controller, CountedIds())

    def ensure(self) -> list[ErrorCode]:
        errors: list[ErrorCode] = []
        self.topics.ensure(OFFSETS_TOPIC, errors.append)
        return errors


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_a_missing_topic_is_created_with_its_partitions_and_settings(broker: Broker) -> None:
    assert broker.ensure() == [ErrorCode.NONE]
    topic = broker.machine.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 3 and topic.configs == {"cleanup.policy": "compact"}


def test_an_existing_topic_is_left_as_it_is(broker: Broker) -> None:
    broker.ensure()
    for fact in broker.journal.kept:
        assert not isinstance(fact, SessionFact)
        broker.image.apply(fact)
    facts = len(broker.journal.kept)
    assert broker.ensure() == [ErrorCode.NONE]
    assert len(broker.journal.kept) == facts


def test_two_requests_at_once_create_the_topic_once_and_both_succeed(broker: Broker) -> None:
    broker.journal.hold()
    first, second = broker.ensure(), broker.ensure()
    assert first == second == []
    broker.journal.release()
    assert first == second == [ErrorCode.NONE]


def test_a_topic_waits_until_there_are_brokers_for_its_replicas() -> None:
    broker = Broker(replication_factor=2)
    assert broker.ensure() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert not broker.journal.kept
    second = BrokerRegistered(BrokerId(2), UUID(int=2), 9, (), None, fenced=True)
    for image in (broker.image, broker.machine.image):
        image.apply(second)
    assert broker.ensure() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    for image in (broker.image, broker.machine.image):
        image.apply(second._replace(fenced=False))
    assert broker.ensure() == [ErrorCode.NONE]


def test_a_broker_that_is_fenced_meanwhile_means_that_no_coordinator_is_available() -> None:
    broker = Broker(replication_factor=2)
    broker.image.apply(BrokerRegistered(BrokerId(2), UUID(int=2), 9, (), None))  # the controller knows better
    assert broker.ensure() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_failed_journal_means_that_no_coordinator_is_available(broker: Broker) -> None:
    broker.journal.broken = True
    assert broker.ensure() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_only_the_named_topics_are_created(broker: Broker) -> None:
    assert OFFSETS_TOPIC in broker.topics and "orders" not in broker.topics
