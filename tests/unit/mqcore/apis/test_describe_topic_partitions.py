"""DescribeTopicPartitions: pages, cursors, and arrays that are never null."""

from __future__ import annotations

from typing import Any

import pytest

from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.apis.stack import Stack


def page(stack: Stack, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return stack.ask(75, 0, topics=topics, response_partition_limit=limit, cursor=at)


def seen(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]


def test_a_partition_tells_who_leads_it_and_no_array_is_null(stack: Stack) -> None:
    stack.create("orders")
    response = page(stack, "orders")
    (topic,) = response.topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, stack.services.image.topics["orders"].id)
    assert not topic.is_internal and response.next_cursor is None
    assert topic.topic_authorized_operations == 0b1101_1111_1000
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, ErrorCode.NONE)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
    assert partition.eligible_leader_replicas == partition.last_known_elr == partition.offline_replicas == []


def test_topics_come_in_the_order_of_their_names_each_once(stack: Stack) -> None:
    for name in ("b", "a", "c"):
        stack.create(name)
    assert [topic.name for topic in page(stack, "c", "a", "c").topics] == ["a", "c"]
    assert [topic.name for topic in page(stack).topics] == ["a", "b", "c"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 0, -1])
def test_pages_together_hold_everything_once(stack: Stack, limit: int) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        stack.create(name, partitions)
    told: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(20):
        response = page(stack, limit=limit, cursor=cursor)
        told += [(name, index) for name, indexes in seen(response) for index in indexes]
        assert sum(len(indexes) for _, indexes in seen(response)) <= max(1, limit)
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert told == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]


def test_a_cursor_at_a_topic_that_is_gone_goes_on_behind_it(stack: Stack) -> None:
    stack.create("a")
    stack.create("c")
    assert seen(page(stack, cursor=("b", 5))) == [("c", [0])]


def test_a_cursor_below_zero_is_the_first_partition(stack: Stack) -> None:
    stack.create("a", 2)
    assert seen(page(stack, "a", cursor=("a", -3))) == [("a", [0, 1])]


def test_unknown_topics_and_impossible_names_are_told_apart(stack: Stack) -> None:
    errors = {topic.name: topic.error_code for topic in page(stack, "nope", "bad name").topics}
    assert errors == {"nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_copy_that_cannot_be_served_is_offline(stack: Stack) -> None:
    stack.create("orders", 2)
    partition = stack.services.partitions.get("orders", 1)
    assert partition is not None
    partition.go_offline("the disk is gone")
    ((well, ill),) = (topic.partitions for topic in page(stack, "orders").topics)
    assert (well.error_code, well.offline_replicas) == (ErrorCode.NONE, [])
    assert (ill.error_code, ill.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, [1])
