"""What the services ask the Kafka cluster about their topics, while its brokers learn of them one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from seckill.messaging import kafka_cluster
from seckill.messaging.kafka_cluster import count_partitions
from seckill.messaging.topics import PURCHASE_REQUESTS


class FakeAdmin:
    unknown_for = 0  # so many requests reach a broker that does not know the topic yet

    def __init__(self, **options: object) -> None:
        pass

    def describe_topics(self, names: Iterable[str]) -> list[dict[str, Any]]:
        if FakeAdmin.unknown_for:
            FakeAdmin.unknown_for -= 1
            return [
                {"name": name, "error_code": UnknownTopicOrPartitionError.errno, "partitions": []} for name in names
            ]
        return [{"name": name, "error_code": 0, "partitions": [{}] * 12} for name in names]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "KafkaAdminClient", FakeAdmin)
    monkeypatch.setattr(kafka_cluster, "TOPICS_POLL_S", 0)
    FakeAdmin.unknown_for = 0


def test_a_broker_that_does_not_know_a_new_topic_yet_is_asked_again() -> None:
    """Otherwise a new topic seemed to have no partitions, and the start failed because it wanted to add twelve."""
    FakeAdmin.unknown_for = 3
    assert count_partitions("k:9093", PURCHASE_REQUESTS) == 12


def test_a_topic_that_stays_unknown_is_an_error_and_not_a_topic_without_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_cluster, "TOPICS_SECONDS_MAX", 0)
    FakeAdmin.unknown_for = 10**6
    with pytest.raises(KafkaError, match="topics are missing, `seckill topics` creates them: .'purchase.requests'."):
        count_partitions("k:9093", PURCHASE_REQUESTS)
