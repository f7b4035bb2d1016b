"""DescribeTopicPartitions: pages, cursors, and arrays that are never null."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.running_broker import RunningBroker


def page(broker: RunningBroker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return broker.request(75, 0, topics=topics, response_partition_limit=limit, cursor=at)


def seen(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]


def test_a_partition_is_described_with_its_leader_and_without_null_arrays(broker: RunningBroker) -> None:
    broker.create_topic("orders")
    response = page(broker, "orders")
    (topic,) = response.topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, broker.services.image.topics["orders"].id)
    assert not topic.is_internal and response.next_cursor is None
    assert topic.topic_authorized_operations == 0b1101_1111_1000
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, ErrorCode.NONE)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
    assert partition.eligible_leader_replicas == partition.last_known_elr == partition.offline_replicas == []


def test_topics_are_ordered_by_name_without_duplicates(broker: RunningBroker) -> None:
    for name in ("b", "a", "c"):
        broker.create_topic(name)
    assert [topic.name for topic in page(broker, "c", "a", "c").topics] == ["a", "c"]
    assert [topic.name for topic in page(broker).topics] == ["a", "b", "c"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 0, -1])
def test_the_pages_together_contain_everything_once(broker: RunningBroker, limit: int) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        broker.create_topic(name, partitions)
    told: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(20):
        response = page(broker, limit=limit, cursor=cursor)
        told += [(name, index) for name, indexes in seen(response) for index in indexes]
        assert sum(len(indexes) for _, indexes in seen(response)) <= max(1, limit)
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert told == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]


def test_a_cursor_at_a_deleted_topic_continues_with_the_next_one(broker: RunningBroker) -> None:
    broker.create_topic("a")
    broker.create_topic("c")
    assert seen(page(broker, cursor=("b", 5))) == [("c", [0])]


def test_a_negative_cursor_starts_at_the_first_partition(broker: RunningBroker) -> None:
    broker.create_topic("a", 2)
    assert seen(page(broker, "a", cursor=("a", -3))) == [("a", [0, 1])]


def test_unknown_topics_and_invalid_names_get_different_errors(broker: RunningBroker) -> None:
    errors = {topic.name: topic.error_code for topic in page(broker, "nope", "bad name").topics}
    assert errors == {"nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_replica_that_cannot_be_served_is_listed_as_offline(broker: RunningBroker) -> None:
    broker.create_topic("orders", 2)
    partition = broker.services.partitions.get("orders", 1)
    assert partition is not None
    partition.go_offline("the disk is gone")
    ((well, ill),) = (topic.partitions for topic in page(broker, "orders").topics)
    assert (well.error_code, well.offline_replicas) == (ErrorCode.NONE, [])
    assert (ill.error_code, ill.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, [1])
