"""A snapshot: the image of the cluster as facts, which make the same image again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args
from uuid import UUID

import pytest

from mqcore.controller.facts import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    Endpoint,
    FeatureLevelSet,
    MetadataFact,
    NoOp,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    SecurityProtocol,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.records import decode, encode
from mqcore.identity import BrokerId, LeaderEpoch
from tests.unit.mqcore.controller.random_commands import cluster_state

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
ORDERS, STOCK = UUID(int=7), UUID(int=8)
ADDRESS = Endpoint("SECURE", "here", 9093, SecurityProtocol.SASL_SSL)

HISTORY: list[MetadataFact] = [
    FeatureLevelSet("metadata.version", 20),
    FeatureLevelSet("group.version", 1),
    FeatureLevelSet("group.version", 0),
    BrokerRegistered(ONE, UUID(int=1), 3, (ADDRESS,), "a", fenced=True, directories=(UUID(int=9),)),
    BrokerRegistered(TWO, UUID(int=2), 4, (ADDRESS,), None),
    BrokerRegistered(THREE, UUID(int=3), 5, (), "c"),
    BrokerChanged(ONE, 3, fenced=False),
    BrokerChanged(TWO, 4, enters_controlled_shutdown=True),
    BrokerChanged(TWO, 4, fenced=True),
    BrokerUnregistered(THREE, 5),
    TopicCreated("orders", ORDERS),
    ConfigChanged(ResourceType.TOPIC, "orders", "flush.ms", "5"),
    ConfigChanged(ResourceType.BROKER, "", "min.insync.replicas", "2"),
    ConfigChanged(ResourceType.GROUP, "g", "x", "y"),
    PartitionCreated(ORDERS, 0, (ONE, TWO), (ONE, TWO), ONE, LeaderEpoch(0), 0),
    PartitionCreated(ORDERS, 1, (TWO, ONE), (ONE,), ONE, LeaderEpoch(4), 9, (TWO,), (ONE,)),
    PartitionChanged(ORDERS, 0, leader=TWO),
    PartitionChanged(ORDERS, 0, isr=(TWO,)),
    PartitionChanged(ORDERS, 0, replicas=(TWO, ONE, THREE), removing=(ONE,), adding=(THREE,)),
    PartitionChanged(ORDERS, 1, leader=BrokerId(-1), removing=(), adding=()),
    TopicCreated("stock", STOCK),
    TopicRemoved(STOCK),
    ProducerIdsReserved(ONE, 3, 2000),
    NoOp(),
]


def image_of(facts: Iterable[MetadataFact]) -> ClusterImage:
    image = ClusterImage()
    for fact in facts:
        image.apply(fact)
    return image


def test_the_history_has_every_kind_of_fact() -> None:
    assert {type(fact) for fact in HISTORY} == set(get_args(MetadataFact))


@pytest.mark.parametrize("length", range(len(HISTORY) + 1))
def test_the_facts_of_an_image_make_the_same_image_again(length: int) -> None:
    image = image_of(HISTORY[:length])
    written = [encode(fact)[1] for fact in image.facts()]
    assert cluster_state(image_of(map(decode, written))) == cluster_state(image)


def test_both_images_stay_the_same_when_more_facts_follow() -> None:
    """A broker that starts from the snapshot equals one that has read the whole log."""
    for length in range(len(HISTORY)):
        again = image_of(image_of(HISTORY[:length]).facts())
        for fact in HISTORY[length:]:
            again.apply(fact)
        assert cluster_state(again) == cluster_state(image_of(HISTORY))


def test_a_partition_change_names_a_leader_or_keeps_the_leader_epoch() -> None:
    partitions = image_of(HISTORY).topics["orders"].partitions
    assert (partitions[0].leader, partitions[0].leader_epoch, partitions[0].partition_epoch) == (TWO, 1, 3)
    assert (partitions[1].leader, partitions[1].leader_epoch, partitions[1].partition_epoch) == (-1, 5, 10)


@pytest.mark.parametrize("forgotten", [FeatureLevelSet, BrokerRegistered, ConfigChanged, ProducerIdsReserved])
def test_a_snapshot_that_forgets_a_kind_of_fact_is_noticed(forgotten: type) -> None:
    """The negative control."""
    image = image_of(HISTORY)
    kept = [fact for fact in image.facts() if not isinstance(fact, forgotten)]
    assert cluster_state(image_of(kept)) != cluster_state(image)
