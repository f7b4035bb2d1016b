"""The replicas panel: the end of the log of each copy, asked of each broker, whatever becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from kafka.errors import KafkaConnectionError

from seckill.console.replicas import PartitionReplicas, read_log_ends, read_replicas

NO_ERROR, NOT_HERE = 0, 3
Answer = dict[str, list[tuple[int, int, int]]]  # partition, error, offset of each topic


class FakeClient:
    """An admin client of three brokers with a copy of each partition of `orders`; `gone` has none. A broker without an
    answer does not reply."""

    def __init__(self, answers: dict[int, Answer]) -> None:
        self._answers = answers
        self._manager = self
        self.asked: list[tuple[int, Any]] = []

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    async def send(self, request: Any, node_id: int) -> Any:
        self.asked.append((node_id, request))
        if not self._answers[node_id]:
            raise KafkaConnectionError("refused")
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic,
                    partitions=[
                        SimpleNamespace(partition_index=index, error_code=error, offset=offset)
                        for index, error, offset in partitions
                    ],
                )
                for topic, partitions in self._answers[node_id].items()
            ]
        )

    def describe_cluster(self) -> dict[str, object]:
        return {"brokers": [{"broker_id": number} for number in self._answers]}

    def describe_topics(self, topics: list[str]) -> list[dict[str, object]]:
        partition = {
            "partition_index": 0,
            "leader_id": 2,
            "leader_epoch": 4,
            "replica_nodes": [2, 3, 1],
            "isr_nodes": [2, 1],
        }
        return [
            {"name": "orders", "error_code": 0, "partitions": [partition]},
            {"name": "gone", "error_code": NOT_HERE, "partitions": []},
        ]


# ── one broker ───────────────────────────────────────────────────────────────────────────────────


def test_the_log_ends_of_a_broker_are_read_by_topic_and_partition() -> None:
    client = FakeClient({1: {"orders": [(0, NO_ERROR, 7), (1, NO_ERROR, 0)], "sales": [(0, NO_ERROR, 1 << 40)]}})
    found = read_log_ends(client, 1, [("orders", 1), ("sales", 0), ("orders", 0)])
    assert found == {("orders", 0): 7, ("orders", 1): 0, ("sales", 0): 1 << 40}


def test_a_copy_with_an_error_is_left_out() -> None:
    client = FakeClient({1: {"orders": [(0, NOT_HERE, -1), (1, NO_ERROR, 5)]}})
    assert read_log_ends(client, 1, [("orders", 0), ("orders", 1)]) == {("orders", 1): 5}


def test_the_request_names_each_topic_once_and_asks_for_the_end_that_clients_do_not_see() -> None:
    client = FakeClient({1: {"orders": []}})
    read_log_ends(client, 1, [("orders", 1), ("sales", 0), ("orders", 0)])
    [(broker, request)] = client.asked
    assert (broker, request.replica_id) == (1, -2)
    asked = {
        topic.name: [(each.partition_index, each.timestamp) for each in topic.partitions] for topic in request.topics
    }
    assert asked == {"orders": [(0, -1), (1, -1)], "sales": [(0, -1)]}
    assert len(request.topics) == 2


# ── all brokers ──────────────────────────────────────────────────────────────────────────────────


def test_each_copy_has_its_own_end_and_that_of_a_broker_that_does_not_answer_is_unknown() -> None:
    client = FakeClient({1: {"orders": [(0, NO_ERROR, 10)]}, 2: {"orders": [(0, NO_ERROR, 12)]}, 3: {}})
    found = read_replicas(client, ["orders", "gone"])
    assert found == [PartitionReplicas("orders", 0, 2, 4, [1, 2], {1: 10, 2: 12, 3: None})]


def test_a_broker_that_is_gone_from_the_cluster_has_an_unknown_end() -> None:
    """The cluster names only brokers that are alive, but a partition keeps the replicas of the others."""
    [found] = read_replicas(FakeClient({1: {"orders": [(0, NO_ERROR, 10)]}}), ["orders"])
    assert found.ends == {1: 10, 2: None, 3: None}
