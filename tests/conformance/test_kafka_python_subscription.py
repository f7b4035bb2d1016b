"""kafka-python 3.0.12 loses a subscription made while a metadata refresh is in flight; our services must not.

The constructor requests metadata of no topics. If `subscribe` is called before that response is processed, the response
clears the pending update, and the topics stay unknown until `metadata_max_age_ms` has passed (five minutes).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata

from seckill.messaging import kafka_client
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import Wire

PATIENCE_S = 20.0


@pytest.fixture
def subscribed_in_flight(
    broker: BrokerProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KafkaConsumer]:
    """A consumer that subscribed between its first metadata request and the response."""
    subscribed, taken_in = threading.Event(), threading.Event()
    take_in = ClusterMetadata.update_metadata
    answers: list[Any] = []

    def take_in_late(self: ClusterMetadata, answer: Any) -> None:
        answers.append(answer)
        if len(answers) == 2:  # the first one is sent by the bootstrap, before the constructor returns
            assert not answer.topics
            assert subscribed.wait(PATIENCE_S)
        take_in(self, answer)
        if len(answers) == 2:
            taken_in.set()

    with Wire(broker.port) as wire:
        wire.create(topic, partitions=2)
    monkeypatch.setattr(ClusterMetadata, "update_metadata", take_in_late)
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False)
    wait_until(lambda: len(answers) == 2)
    consumer.subscribe([topic])
    subscribed.set()
    assert taken_in.wait(PATIENCE_S)
    yield consumer
    consumer.close(autocommit=False)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_client_still_forgets_the_subscription(subscribed_in_flight: KafkaConsumer, topic: str) -> None:
    """If this fails, kafka-python is fixed, and `client.request_unknown_topics` and its documentation can be
    removed."""
    cluster = subscribed_in_flight._cluster
    assert cluster.partitions_for_topic(topic) is None
    assert not cluster.need_update, "the client does not request the metadata either"
    assert cluster.ttl() > 60_000


def test_requesting_unknown_topics_before_a_poll_restores_the_subscription(
    subscribed_in_flight: KafkaConsumer, topic: str
) -> None:
    def assigned() -> int:
        kafka_client.request_unknown_topics(subscribed_in_flight)
        subscribed_in_flight.poll(timeout_ms=2000)  # the client forgets a join for which a poll had no time
        return len(subscribed_in_flight.assignment())

    wait_until(lambda: assigned() == 2)


def test_known_topics_are_not_requested_again(subscribed_in_flight: KafkaConsumer, topic: str) -> None:
    consumer = subscribed_in_flight
    kafka_client.request_unknown_topics(consumer)
    wait_until(lambda: consumer._cluster.partitions_for_topic(topic) is not None)
    wait_until(lambda: not consumer._cluster.need_update)
    kafka_client.request_unknown_topics(consumer)
    assert not consumer._cluster.need_update
