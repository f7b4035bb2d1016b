"""A request that names the same resource 100,000 times gets one description of it.

A description is much longer than a name, so otherwise a request of a megabyte would cause a response of gigabytes.
"""

from __future__ import annotations

from tests.unit.mqcore.apis.running_broker import RunningBroker

OFTEN = 1000


def test_metadata_describes_a_topic_once_even_if_it_is_requested_often(broker: RunningBroker) -> None:
    broker.create_topic("orders", 3)
    topic_id = broker.services.image.topics["orders"].id
    assert len(broker.request(3, 9, topics=[{"name": "orders"}] * OFTEN).topics) == 1
    assert len(broker.request(3, 12, topics=[{"name": None, "topic_id": topic_id}] * OFTEN).topics) == 1


def test_an_automatically_created_topic_is_described_once(broker: RunningBroker) -> None:
    (topic,) = broker.request(3, 9, topics=[{"name": "orders"}] * OFTEN).topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("orders", 0, 1)


def test_the_settings_of_a_resource_are_described_once(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    assert len(broker.request(32, 4, resources=[resource] * OFTEN).results) == 1


def test_the_producers_of_a_partition_are_described_once(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    wanted = [{"name": "orders", "partition_indexes": [0] * OFTEN}] * 2
    ((partition,),) = (topic.partitions for topic in broker.request(61, 0, topics=wanted).topics)
    assert partition.partition_index == 0


def test_the_partitions_of_a_topic_are_described_once(broker: RunningBroker) -> None:
    broker.create_topic("orders", 2)
    (topic,) = broker.request(75, 0, topics=[{"name": "orders"}] * OFTEN).topics
    assert len(topic.partitions) == 2
    wanted = [{"topic": "orders", "partitions": [0] * OFTEN}]
    ((size,),) = (topic.partitions for topic in broker.request(35, 4, topics=wanted).results[0].topics)
    assert size.partition_index == 0
