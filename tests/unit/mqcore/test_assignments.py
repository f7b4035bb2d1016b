"""The replicas and coordinators of a broker follow the metadata of the cluster."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from mqcore.assignments import Assignments
from mqcore.controller.commands import CreateTopics, DeleteTopics
from mqcore.controller.facts import PartitionChanged, ResourceType
from mqcore.identity import OFFSETS_TOPIC, BrokerId
from mqcore.log.log import Log
from mqcore.partitions.follower import FollowerState
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER
from tests.unit.mqcore.controller.cluster_driver import Cluster, alter, edits, set_to
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import DataFolder


class RecordedCoordinator:
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def lead(self, index: int, partition: Partition) -> None:
        assert partition.index == index
        self.calls.append(("lead", index))

    def cannot_lead(self, index: int) -> None:
        self.calls.append(("cannot lead", index))

    def resign(self, index: int) -> None:
        self.calls.append(("resign", index))

    def topic_deleted(self, topic: str) -> None:
        self.calls.append(("topic deleted", topic))


class RecordedReplication:
    """Knows which partitions are copied from another broker at the moment."""

    def __init__(self) -> None:
        self.partitions: set[str] = set()

    def follow(self, partition: Partition) -> None:
        assert isinstance(partition.role, FollowerState)
        self.partitions.add(str(partition.name))

    def drop(self, partition: Partition) -> None:
        self.partitions.discard(str(partition.name))


class Broker:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.folder = DataFolder()
        self.coordinator = RecordedCoordinator()
        self.copied = RecordedReplication()
        self.assignments = Assignments(
            self.cluster.image,
            self.folder.hosted,
            self.copied,
            {OFFSETS_TOPIC: self.coordinator},
            lambda: Membership(BrokerId(1)),
            VirtualClock(),
            file_settings={"flush.ms": "7"},
        )
        self.assignments.begin()

    def change(self, **changes: Any) -> None:
        """The controller has changed the partition `orders-0`."""
        topic = self.cluster.image.topics["orders"]
        self.cluster.image.apply(PartitionChanged(topic.id, 0, **changes))
        self.assignments.reconcile()

    @property
    def partition(self) -> Partition:
        partition = self.folder.hosted.get("orders", 0)
        assert partition is not None
        return partition

    def retention_ms(self, topic: str) -> int:
        partition = self.folder.hosted.get(topic, 0)
        assert partition is not None
        return partition.log.config.retention_ms


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_partitions_are_opened_with_the_settings_of_topic_broker_and_file(broker: Broker) -> None:
    broker.cluster.create("orders", configs={"retention.ms": "1"})
    broker.cluster.create("stock")
    broker.cluster.submit(alter(edits("1", set_to("log.retention.ms", "2"), kind=ResourceType.BROKER)))
    broker.assignments.reconcile()
    assert [broker.retention_ms(topic) for topic in ("orders", "stock")] == [1, 2]
    assert {partition.log.config.flush_ms for partition in broker.folder.hosted} == {7}


def test_a_changed_default_reaches_the_topics_that_do_not_set_it_themselves(broker: Broker) -> None:
    broker.cluster.create("orders", configs={"retention.ms": "1"})
    broker.cluster.create("stock")
    broker.assignments.reconcile()
    broker.cluster.submit(alter(edits("", set_to("log.retention.ms", "3"), kind=ResourceType.BROKER)))
    broker.assignments.reconcile()
    assert [broker.retention_ms(topic) for topic in ("orders", "stock")] == [1, 3]


def test_a_deleted_topic_is_removed_and_its_offsets_are_forgotten(broker: Broker) -> None:
    broker.cluster.create("orders")
    broker.assignments.reconcile()
    broker.cluster.submit(DeleteTopics((("orders", None),)))
    broker.assignments.reconcile()
    assert len(broker.folder.hosted) == 0
    assert broker.coordinator.calls == [("topic deleted", "orders")]


def test_a_restarted_broker_leads_its_partitions_in_the_new_epoch(broker: Broker) -> None:
    broker.cluster.create("orders")
    broker.assignments.reconcile()
    broker.cluster.register(1)
    broker.assignments.reconcile()
    partition = broker.folder.hosted.get("orders", 0)
    assert partition is not None and partition.leader_epoch == 1


def test_a_coordinator_leads_the_partitions_of_its_topic_that_could_be_opened(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.cluster.submit(CreateTopics((broker.cluster.topic(OFFSETS_TOPIC, 2),), internal=True))
    open_log = Log.open

    def fail_for_the_second(disk: object, directory: str, *rest: object, **more: object) -> object:
        if directory.endswith("-1"):
            raise OSError(errno.EMFILE, "no descriptors")
        return open_log(disk, directory, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "open", fail_for_the_second)
    broker.assignments.reconcile()
    assert broker.coordinator.calls == [("lead", 0), ("cannot lead", 1)]
    monkeypatch.undo()
    for name, topic_id in broker.folder.hosted.retryable_failures():
        broker.assignments.open_partition(name, topic_id)
    assert broker.coordinator.calls[2:] == [("lead", 1)]


def test_a_change_that_raises_is_logged_and_the_others_take_effect(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        broker.cluster.create(name)
    open_partition = broker.assignments.open_partition

    def fail_for_b(name: object, topic_id: object) -> None:
        if str(name) == "b-0":
            raise RuntimeError("a bug")
        open_partition(name, topic_id)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.assignments, "open_partition", fail_for_b)
    broker.assignments.reconcile()
    assert sorted(partition.topic for partition in broker.folder.hosted) == ["a", "c"]
    assert "a bug" in caplog.text


ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.fixture
def replica(broker: Broker) -> Broker:
    """Broker 1 leads `orders-0`, which brokers 2 and 3 copy."""
    broker.cluster.create("orders")
    broker.change(replicas=(ONE, TWO, THREE), isr=(ONE, TWO, THREE))
    return broker


def test_a_partition_that_another_broker_leads_is_copied_until_this_one_leads_again(replica: Broker) -> None:
    assert replica.partition.leads
    replica.change(leader=TWO)
    assert not replica.partition.leads and replica.copied.partitions == {"orders-0"}
    replica.change(leader=ONE)
    assert replica.partition.leads and replica.copied.partitions == set()
    assert replica.assignments.terms_begun == 2


def test_a_partition_without_a_leader_is_neither_led_nor_copied(replica: Broker) -> None:
    replica.change(leader=NO_LEADER, isr=(TWO,))
    assert replica.partition.role is None and replica.copied.partitions == set()


def test_replicas_that_leave_and_join_are_counted_where_the_leader_is(replica: Broker) -> None:
    replica.change(isr=(ONE, TWO))
    replica.change(isr=(ONE,))
    replica.change(isr=(ONE, THREE))
    assert (replica.assignments.isr_shrinks, replica.assignments.isr_expands) == (2, 1)
    replica.change(leader=THREE, isr=(THREE,))
    assert replica.assignments.isr_shrinks == 2


def test_a_replica_that_was_moved_to_other_brokers_is_given_up(replica: Broker) -> None:
    replica.change(leader=TWO)
    replica.change(replicas=(TWO, THREE), isr=(TWO, THREE))
    assert replica.folder.hosted.get("orders", 0) is None and replica.copied.partitions == set()


def test_a_broker_that_lost_its_registration_has_no_role_until_it_is_registered_again(replica: Broker) -> None:
    replica.change(leader=TWO)
    replica.assignments.leave()
    assert replica.partition.role is None and replica.copied.partitions == set()
    replica.change(leader=ONE)
    assert not replica.partition.leads, "the metadata are not about the next registration yet"
    replica.assignments.begin()
    assert replica.partition.leads


def test_a_default_for_in_sync_replicas_never_makes_a_topic_unwritable_but_its_own_setting_may(broker: Broker) -> None:
    broker.cluster.submit(alter(edits("", set_to("min.insync.replicas", "2"), kind=ResourceType.BROKER)))
    broker.cluster.create("orders")
    broker.assignments.reconcile()
    assert broker.partition.has_enough_replicas
    broker.cluster.submit(alter(edits("orders", set_to("min.insync.replicas", "2"))))
    broker.assignments.reconcile()
    assert not broker.partition.has_enough_replicas
