"""A broker's view of the cluster: what is committed, in order, each fact once."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from mqcore.controller import records
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.controller.facts import BrokerRegistered, MetadataFact, TopicCreated, TopicRemoved
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import PartitionJournal
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch, TopicPartition
from mqcore.log.config import LogConfig
from mqcore.log.log import Log
from mqcore.partitions.partition import Partition
from mqcore.partitions.producers import Producers
from mqcore.wire.frames import BadFrame
from mqcore.wire.records import Record
from tests.unit.mqcore.controller.cast import ONE_EACH, check_broker
from tests.unit.mqcore.coordination.virtual import VirtualClock

NAME = TopicPartition("__cluster_metadata", 0)
ORDERS, STOCK = TopicCreated("orders", UUID(int=1)), TopicCreated("stock", UUID(int=2))


class MetadataLog:
    """What is appended is committed with the next `sync`, as on a real disk."""

    def __init__(self) -> None:
        producers = Producers()
        config = LogConfig(flush_messages=1)
        self.disk = MemoryDisk()
        log = Log.open(self.disk, str(NAME), config, now_ms=0, clean=True, recovery_point=0, observer=producers)
        self.partition = Partition(NAME, UUID(int=9), log, producers, LeaderEpoch(1), lambda partition: None)
        self._journal = PartitionJournal[MetadataFact](self.partition, records.encode, VirtualClock())

    def append(self, *facts: MetadataFact) -> None:
        self._journal.append(facts)

    def sync(self) -> None:
        self.partition.log.sync()
        self.partition.synced()


@pytest.fixture
def log() -> MetadataLog:
    return MetadataLog()


def test_what_is_appended_is_seen_once_it_is_committed(log: MetadataLog) -> None:
    observer = MetadataObserver(log.partition)
    observer.follow()
    log.append(ORDERS)
    assert not observer.image.topics
    log.sync()
    assert set(observer.image.topics) == {"orders"}


def test_listeners_hear_each_fact_once_and_after_the_image_has_it(log: MetadataLog) -> None:
    observer = MetadataObserver(log.partition)
    heard: list[tuple[MetadataFact, set[str]]] = []
    observer.listen(lambda fact: heard.append((fact, set(observer.image.topics))))
    observer.follow()
    log.append(ORDERS, STOCK)
    log.sync()
    log.append(TopicRemoved(ORDERS.topic_id))
    log.sync()
    observer.catch_up()
    assert heard == [
        (ORDERS, {"orders"}),
        (STOCK, {"orders", "stock"}),
        (TopicRemoved(ORDERS.topic_id), {"stock"}),
    ]


def test_one_who_comes_later_catches_up(log: MetadataLog) -> None:
    log.append(ORDERS)
    log.sync()
    observer = MetadataObserver(log.partition)
    observer.follow()
    assert set(observer.image.topics) == {"orders"}
    assert observer.applied == log.partition.high_watermark


def test_a_controller_that_takes_over_begins_with_all_committed_facts(log: MetadataLog) -> None:
    log.append(ORDERS, STOCK)
    log.sync()
    log.append(TopicRemoved(ORDERS.topic_id))
    assert list(MetadataObserver(log.partition).replayed()) == [ORDERS, STOCK]


def test_a_record_that_nobody_can_read_is_not_passed_over(log: MetadataLog) -> None:
    """Of a newer version, perhaps: to go on without it would be to serve another cluster than the one there is."""
    log.partition.append_records([Record(0, 0, None, b"\x01\x63\x00")])
    observer = MetadataObserver(log.partition)
    with pytest.raises(BadFrame):
        log.sync()
        observer.follow()


def test_a_listener_that_raises_does_not_keep_later_facts_from_the_others(
    log: MetadataLog, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(fact: MetadataFact) -> None:
        raise RuntimeError("a folder that cannot be made")

    observer = MetadataObserver(log.partition)
    heard: list[MetadataFact] = []
    observer.listen(fails)
    observer.listen(heard.append)
    observer.follow()
    log.append(ORDERS, STOCK)
    log.sync()
    assert heard == [ORDERS, STOCK] and set(observer.image.topics) == {"orders", "stock"}
    assert "a folder that cannot be made" in caplog.text


def test_commands_get_an_error_when_the_metadata_log_cannot_be_read_back(log: MetadataLog) -> None:
    """They would wait for good otherwise: each is decided only once the one before is answered."""
    observer = MetadataObserver(log.partition)
    observer.follow()
    machine = ControllerMachine(ONE_EACH, check_broker)
    controller = Controller(machine, PartitionJournal(log.partition, records.encode, VirtualClock()), VirtualClock())
    machine.apply(BrokerRegistered(BrokerId(1), UUID(int=3), 1, (), None))
    first: list[object] = []
    second: list[object] = []
    controller.submit(CreateTopics((NewTopic("orders", UUID(int=1)),)), first.append)
    controller.submit(CreateTopics((NewTopic("stock", UUID(int=2)),)), second.append)
    assert not first and not second
    log.disk.fail("read", errno.EIO, times=9)
    log.sync()
    assert isinstance(first[0], JournalFault) and isinstance(second[0], JournalFault)
    assert log.partition.offline is not None
