"""A broker's view of the cluster: everything that is committed, in order, each fact once."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from mqcore.controller import records
from mqcore.controller.commands import ControllerAnswer, CreateTopics, NewTopic
from mqcore.controller.facts import BrokerRegistered, MetadataFact, TopicCreated, TopicRemoved
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataJournal, MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import PartitionJournal
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import METADATA_TOPIC, BrokerId, LeaderEpoch, Offset, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome, StorageFault
from mqcore.wire.frames import BadFrame
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.helpers import lead_alone

NAME = TopicPartition(METADATA_TOPIC, 0)
ORDERS, STOCK = TopicCreated("orders", UUID(int=1)), TopicCreated("stock", UUID(int=2))
CREATE_ORDERS = CreateTopics((NewTopic("orders", UUID(int=1)),))
CREATE_STOCK = CreateTopics((NewTopic("stock", UUID(int=2)),))


class MetadataLog:
    """Appended records are committed by `sync`; the observer sees them in the next turn of the event loop."""

    def __init__(self) -> None:
        producers = Producers()
        config = LogConfig(flush_messages=1)
        self.disk = MemoryDisk()
        self.clock = VirtualClock()
        log = Log.open(self.disk, str(NAME), config, now_ms=0, clean=True, recovery_point=0, observer=producers)
        self.partition = Partition(NAME, UUID(int=9), log, producers, lambda partition: None)
        lead_alone(self.partition, LeaderEpoch(1))
        self._journal = PartitionJournal[MetadataFact](self.partition, records.encode, self.clock)

    def append(self, *facts: MetadataFact) -> Offset:
        return self._journal.append(facts)

    def sync(self) -> None:
        self.partition.log.sync()
        self.partition.on_synced()

    def next_turn(self) -> None:
        self.clock.advance(0)

    def observe(self) -> MetadataObserver:
        observer = MetadataObserver(self.partition, self.clock)
        observer.start()
        return observer

    def controller(self, observer: MetadataObserver) -> Controller:
        machine = ControllerMachine(ONE_EACH)
        machine.apply(BrokerRegistered(BrokerId(1), UUID(int=3), 1, (), None))
        return Controller(machine, MetadataJournal(observer, self.clock, OWN_BATCH_BYTES_MAX), self.clock)


@pytest.fixture
def log() -> MetadataLog:
    return MetadataLog()


def test_a_fact_enters_the_image_when_it_is_committed_and_not_before(log: MetadataLog) -> None:
    observer = log.observe()
    log.append(ORDERS)
    log.next_turn()
    assert not observer.image.topics
    log.sync()
    log.next_turn()
    assert set(observer.image.topics) == {"orders"}


def test_the_observer_does_not_run_inside_the_append_that_commits(log: MetadataLog) -> None:
    observer = log.observe()
    observer.add_listener(lambda: pytest.fail("called inside the commit"))
    log.append(ORDERS)
    log.sync()
    assert not observer.image.topics


def test_listeners_are_called_once_for_all_facts_that_were_committed_together(log: MetadataLog) -> None:
    observer = log.observe()
    seen: list[set[str]] = []
    observer.add_listener(lambda: seen.append(set(observer.image.topics)))
    log.append(ORDERS)
    log.append(STOCK)
    log.sync()
    log.next_turn()
    log.append(TopicRemoved(ORDERS.topic_id))
    log.sync()
    log.next_turn()
    log.next_turn()
    assert seen == [{"orders", "stock"}, {"stock"}]


def test_a_caller_waits_until_the_listeners_have_run(log: MetadataLog) -> None:
    observer = log.observe()
    events: list[object] = []
    observer.add_listener(lambda: events.append("listener"))
    end = log.append(ORDERS)
    observer.when_reached(end, events.append)
    log.sync()
    assert events == []
    log.next_turn()
    assert events == ["listener", COMMITTED]
    observer.when_reached(end, events.append)
    assert events == ["listener", COMMITTED, COMMITTED]


def test_an_observer_that_starts_late_applies_everything_that_is_committed(log: MetadataLog) -> None:
    log.append(ORDERS)
    log.sync()
    observer = log.observe()
    assert set(observer.image.topics) == {"orders"}
    assert observer.applied_end == log.partition.high_watermark


def test_a_controller_that_takes_over_begins_with_the_committed_facts_only(log: MetadataLog) -> None:
    log.append(ORDERS, STOCK)
    log.sync()
    log.append(TopicRemoved(ORDERS.topic_id))
    assert list(MetadataObserver(log.partition, log.clock).committed_facts()) == [ORDERS, STOCK]


def test_a_record_of_an_unknown_type_stops_the_start(log: MetadataLog) -> None:
    """A newer version may have written it. Skipping it would mean to serve a different cluster."""
    log.partition.append_records([Record(0, 0, None, b"\x01\x63\x00")])
    log.sync()
    with pytest.raises(BadFrame):
        log.observe()


def test_a_listener_that_raises_stops_neither_the_other_listeners_nor_the_controller(
    log: MetadataLog, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("a folder that cannot be made")

    observer = log.observe()
    seen: list[set[str]] = []
    observer.add_listener(fail)
    observer.add_listener(lambda: seen.append(set(observer.image.topics)))
    controller = log.controller(observer)
    answers: list[ControllerAnswer | JournalFault] = []
    for command in (CREATE_ORDERS, CREATE_STOCK):
        controller.submit(command, answers.append)
        log.sync()
        log.next_turn()
    assert seen == [{"orders"}, {"orders", "stock"}]
    assert len(answers) == 2 and not any(isinstance(answer, JournalFault) for answer in answers)
    assert "a folder that cannot be made" in caplog.text


def test_all_waiting_commands_get_an_error_when_the_metadata_log_cannot_be_read_back(log: MetadataLog) -> None:
    """Otherwise they would never be answered, because each waits for the answer to the previous one."""
    observer = log.observe()
    controller = log.controller(observer)
    answers: list[ControllerAnswer | JournalFault] = []
    controller.submit(CREATE_ORDERS, answers.append)
    controller.submit(CREATE_STOCK, answers.append)
    log.disk.fail("read", errno.EIO, times=9)
    log.sync()
    assert not answers
    log.next_turn()
    assert [type(answer) for answer in answers] == [JournalFault, JournalFault]
    assert log.partition.is_offline


def test_a_caller_gets_the_fault_when_the_log_goes_offline_before_the_commit(log: MetadataLog) -> None:
    observer = log.observe()
    outcomes: list[CommitOutcome] = []
    end = log.append(ORDERS)
    observer.when_reached(end, outcomes.append)
    log.partition.go_offline("the disk is gone")
    log.next_turn()
    observer.when_reached(end, outcomes.append)
    assert outcomes == [StorageFault("the disk is gone")] * 2
