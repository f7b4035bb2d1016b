"""A request may name the same thing 100,000 times; the answer may not describe it as often.

What is described is much longer than its name: without this a megabyte of request makes gigabytes of response.
"""

from __future__ import annotations

from tests.unit.mqcore.apis.stack import Stack

OFTEN = 1000


def test_metadata_describe_a_topic_once(stack: Stack) -> None:
    stack.create("orders", 3)
    topic_id = stack.services.image.topics["orders"].id
    assert len(stack.ask(3, 9, topics=[{"name": "orders"}] * OFTEN).topics) == 1
    assert len(stack.ask(3, 12, topics=[{"name": None, "topic_id": topic_id}] * OFTEN).topics) == 1


def test_a_topic_made_on_the_way_is_described_once(stack: Stack) -> None:
    (topic,) = stack.ask(3, 9, topics=[{"name": "orders"}] * OFTEN).topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("orders", 0, 1)


def test_settings_of_a_resource_are_told_once(stack: Stack) -> None:
    stack.create("orders")
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    assert len(stack.ask(32, 4, resources=[resource] * OFTEN).results) == 1


def test_producers_of_a_partition_are_told_once(stack: Stack) -> None:
    stack.create("orders")
    wanted = [{"name": "orders", "partition_indexes": [0] * OFTEN}] * 2
    ((partition,),) = (topic.partitions for topic in stack.ask(61, 0, topics=wanted).topics)
    assert partition.partition_index == 0


def test_partitions_of_a_topic_are_told_once(stack: Stack) -> None:
    stack.create("orders", 2)
    (topic,) = stack.ask(75, 0, topics=[{"name": "orders"}] * OFTEN).topics
    assert len(topic.partitions) == 2
    wanted = [{"topic": "orders", "partitions": [0] * OFTEN}]
    ((size,),) = (topic.partitions for topic in stack.ask(35, 4, topics=wanted).results[0].topics)
    assert size.partition_index == 0
