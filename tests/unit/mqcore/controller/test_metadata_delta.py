"""What a broker has to do, from the difference between two images of the cluster."""

from __future__ import annotations

import pytest

from mqcore.controller.commands import CreatePartitions, CreateTopics, DeleteTopics, PartitionIncrease
from mqcore.controller.facts import ResourceType
from mqcore.controller.metadata_delta import (
    BrokerSettingsChanged,
    MetadataDelta,
    PartitionTouched,
    TopicDeleted,
    TopicSettingsChanged,
)
from mqcore.identity import BrokerId
from tests.unit.mqcore.controller.cluster_driver import Cluster, alter, edits, set_to


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("orders", partitions=2)
    return cluster


@pytest.fixture
def delta(cluster: Cluster) -> MetadataDelta:
    """Has taken everything that the cluster began with."""
    delta = MetadataDelta(BrokerId(1))
    delta.take(cluster.image)
    return delta


def test_the_first_delta_adds_every_partition(cluster: Cluster) -> None:
    topic_id = cluster.image.topics["orders"].id
    assert MetadataDelta(BrokerId(1)).take(cluster.image) == [
        PartitionTouched(topic_id, 0),
        PartitionTouched(topic_id, 1),
    ]


def test_nothing_changes_twice(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.create("stock")
    assert len(delta.take(cluster.image)) == 1
    assert delta.take(cluster.image) == []


def test_a_topic_that_grows_adds_only_its_new_partitions(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.submit(CreatePartitions((PartitionIncrease("orders", 3),)))
    topic_id = cluster.image.topics["orders"].id
    assert delta.take(cluster.image) == [PartitionTouched(topic_id, 2)]


def test_a_topic_that_is_deleted_and_created_again_is_deleted_first(cluster: Cluster, delta: MetadataDelta) -> None:
    old = cluster.image.topics["orders"]
    cluster.submit(DeleteTopics((("orders", None),)))
    cluster.create("orders")
    new = cluster.image.topics["orders"]
    assert delta.take(cluster.image) == [TopicDeleted(old), PartitionTouched(new.id, 0)]


def test_a_topic_that_was_created_and_deleted_in_between_is_not_seen(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.create("stock")
    cluster.submit(DeleteTopics((("stock", None),)))
    assert delta.take(cluster.image) == []


def test_a_partition_with_a_new_leader_epoch_has_changed(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.register(1)
    topic = cluster.image.topics["orders"]
    assert delta.take(cluster.image) == [PartitionTouched(topic.id, 0), PartitionTouched(topic.id, 1)]


def test_the_partitions_of_other_brokers_are_none_of_this_brokers_business(
    cluster: Cluster, delta: MetadataDelta
) -> None:
    cluster.create("stock")
    assert MetadataDelta(BrokerId(2)).take(cluster.image) == []


def test_a_setting_of_a_topic_concerns_that_topic_alone(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.submit(alter(edits("orders", set_to("flush.ms", "5"))))
    assert delta.take(cluster.image) == [TopicSettingsChanged("orders")]


def test_the_settings_of_a_new_topic_are_no_change_of_settings(cluster: Cluster, delta: MetadataDelta) -> None:
    cluster.submit(CreateTopics((cluster.topic("stock", configs={"flush.ms": "5"}),)))
    assert [type(change) for change in delta.take(cluster.image)] == [PartitionTouched]


@pytest.mark.parametrize(("broker", "is_concerned"), [("", True), ("1", True), ("2", False)])
def test_a_default_concerns_this_broker_if_it_is_set_for_it_or_for_all(
    cluster: Cluster, delta: MetadataDelta, broker: str, is_concerned: bool
) -> None:
    cluster.register(2)
    delta.take(cluster.image)
    cluster.submit(alter(edits(broker, set_to("log.retention.ms", "5"), kind=ResourceType.BROKER)))
    assert delta.take(cluster.image) == ([BrokerSettingsChanged()] if is_concerned else [])
