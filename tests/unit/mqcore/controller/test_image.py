"""The image of the cluster after facts, including those that only several brokers make."""

from __future__ import annotations

from uuid import UUID

import pytest

from mqcore.controller.facts import ConfigChanged, PartitionChanged, PartitionCreated, ResourceType, TopicCreated
from mqcore.controller.image import ClusterImage
from mqcore.identity import BrokerId, LeaderEpoch
from tests.unit.mqcore.controller.cluster_driver import Cluster

ORDERS = UUID(int=7)


def test_a_restarted_broker_leads_its_partitions_in_a_new_epoch() -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=2)
    cluster.register(1, host="elsewhere")
    broker = cluster.image.brokers[BrokerId(1)]
    assert broker.broker_epoch == 4 and broker.endpoints[0].host == "elsewhere"
    partitions = cluster.image.topics["orders"].partitions
    assert [(part.leader, part.leader_epoch, part.partition_epoch) for part in partitions] == [(1, 1, 1)] * 2
    assert cluster.image.topics_by_id[cluster.image.topics["orders"].id].partitions == partitions


def test_a_restarted_broker_does_not_take_over_other_partitions() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=2)
    cluster.register(2)
    assert [part.leader_epoch for part in cluster.image.topics["orders"].partitions] == [0, 1]


def test_a_topic_image_that_a_reader_holds_does_not_change() -> None:
    cluster = Cluster()
    cluster.create("orders")
    before = cluster.image.topics["orders"]
    topic_id = before.id
    cluster.machine.apply(PartitionChanged(topic_id, 0, leader=BrokerId(1)))
    cluster.machine.apply(ConfigChanged(ResourceType.TOPIC, "orders", "flush.ms", "5"))
    assert before.configs == {} and before.partitions[0].leader_epoch == 0
    assert cluster.image.topics["orders"] != before


def test_the_settings_of_a_topic_image_are_read_only() -> None:
    cluster = Cluster()
    cluster.create("orders", configs={"flush.ms": "5"})
    with pytest.raises(TypeError):
        cluster.image.topics["orders"].configs["flush.ms"] = "6"  # type: ignore[index]


def test_a_partition_out_of_order_is_an_assertion_error() -> None:
    image = ClusterImage()
    image.apply(TopicCreated("orders", ORDERS))
    here = (BrokerId(1),)
    with pytest.raises(AssertionError):
        image.apply(PartitionCreated(ORDERS, 1, here, here, here[0], LeaderEpoch(0), 0))


def test_internal_topics_are_marked_in_the_image() -> None:
    image = ClusterImage()
    image.apply(TopicCreated("__consumer_offsets", ORDERS))
    image.apply(TopicCreated("orders", UUID(int=8)))
    assert image.topics["__consumer_offsets"].is_internal and not image.topics["orders"].is_internal
