"""A broker's view of the cluster: everything that is committed, in order, each fact once."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from uuid import UUID

import pytest

from mqcore.controller import records
from mqcore.controller.commands import ControllerAnswer, CreateTopics, NewTopic
from mqcore.controller.facts import BrokerRegistered, MetadataFact, TopicCreated, TopicRemoved
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataJournal, MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.controller.snapshot_trigger import SnapshotTrigger
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import PartitionJournal
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, Offset
from mqcore.partitions.waiting_requests import COMMITTED, CommitOutcome, StorageFault
from mqcore.wire.frames import BadFrame
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record
from tests.unit.mqcore.controller.cluster_driver import ONE_EACH
from tests.unit.mqcore.controller.random_commands import cluster_state
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.raft.lone_quorum import LoneQuorum

ORDERS, STOCK = TopicCreated("orders", UUID(int=1)), TopicCreated("stock", UUID(int=2))
CREATE_ORDERS = CreateTopics((NewTopic("orders", UUID(int=1)),))
CREATE_STOCK = CreateTopics((NewTopic("stock", UUID(int=2)),))


class MetadataLog:
    """Appended records are committed by `sync`; the observer sees them in the next turn of the event loop."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = VirtualClock()
        self._lone = LoneQuorum(self.disk, self.clock)
        self._lone.lead()
        self.quorum = self._lone.quorum
        self._journal = PartitionJournal[MetadataFact](self.quorum, records.encode, self.clock)

    def append(self, *facts: MetadataFact) -> Offset:
        return self._journal.append(facts)

    def sync(self) -> None:
        self._lone.sync()

    def next_turn(self) -> None:
        self.clock.advance(0)

    def observe(self) -> MetadataObserver:
        observer = MetadataObserver(self.quorum, self.clock)
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
    assert observer.applied_end == log.quorum.high_watermark


def test_the_quorums_own_records_are_in_effect_as_soon_as_they_are_committed(log: MetadataLog) -> None:
    """Otherwise a caller that needs the end of the log would wait for the next change."""
    observer = log.observe()
    assert observer.applied_end == log.quorum.log.end_offset == 1


def test_an_observer_starts_from_the_snapshot_and_goes_on_with_the_log(log: MetadataLog) -> None:
    end = log.append(ORDERS)
    log.sync()
    write_snapshot(log, end, [ORDERS])
    assert log.quorum.log.start_offset == end
    log.append(STOCK)
    log.sync()
    observer = log.observe()
    assert set(observer.image.topics) == {"orders", "stock"}
    assert observer.applied_end == log.quorum.high_watermark


def test_a_snapshot_beyond_what_is_applied_replaces_the_content_of_the_same_image(log: MetadataLog) -> None:
    """A leader sends its snapshot to a follower that has fallen far behind."""
    observer = log.observe()
    image, version = observer.image, observer.image.version
    log.append(ORDERS)
    end = log.append(TopicRemoved(ORDERS.topic_id))
    log.sync()
    write_snapshot(log, end, [STOCK])
    log.next_turn()
    assert observer.image is image and set(image.topics) == {"stock"} and image.version > version
    assert observer.applied_end == end


def test_a_snapshot_is_written_when_the_log_has_grown_too_long(log: MetadataLog) -> None:
    observer = log.observe()
    observer.add_listener(SnapshotTrigger(observer, bytes_max=300).check)
    seen = []

    async def change() -> None:
        for number in range(9):
            log.append(TopicCreated(f"topic-{number}", UUID(int=number + 1)))
            log.sync()
            log.next_turn()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(log.quorum.bytes_since_snapshot)

    asyncio.run(change())
    assert log.quorum.snapshot is not None and log.quorum.snapshot.end > 1 and max(seen) <= 300
    assert log.quorum.log.start_offset == log.quorum.snapshot.end
    assert cluster_state(log.observe().image) == cluster_state(observer.image)


def write_snapshot(log: MetadataLog, end: Offset, facts: Sequence[MetadataFact]) -> None:
    async def write() -> None:
        log.quorum.write_snapshot(end, [records.encode(fact)[1] for fact in facts])
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(write())


def test_a_record_of_an_unknown_type_stops_the_start(log: MetadataLog) -> None:
    """A newer version may have written it. Skipping it would mean to serve a different cluster."""
    log.quorum.append_records([Record(0, 0, None, b"\x01\x63\x00")])
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
    assert log.quorum.is_offline


def test_a_caller_gets_the_fault_when_the_log_goes_offline_before_the_commit(log: MetadataLog) -> None:
    observer = log.observe()
    outcomes: list[CommitOutcome] = []
    end = log.append(ORDERS)
    observer.when_reached(end, outcomes.append)
    log.quorum.go_offline("the disk is gone")
    log.next_turn()
    observer.when_reached(end, outcomes.append)
    assert outcomes == [StorageFault("the disk is gone")] * 2
