"""kafka-python 3.0.12 raises an error from `poll` if it can reach neither the coordinator nor a broker with metadata.
Our consumers must keep polling, because the broker comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaConnectionError, RetriableError
from kafka.future import Future

from seckill.messaging import kafka_client
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import Wire

AWAY_SECONDS = 3.0
PATIENCE_SECONDS = 30.0


@pytest.fixture
def broker(new_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    broker = new_broker()
    broker.start()
    return broker


@pytest.fixture
def consumer(broker: BrokerProcess, topic: str, group: str) -> Iterator[KafkaConsumer]:
    """A member of its group, with its partition."""
    with Wire(broker.port) as wire:
        wire.create(topic)
    consumer = kafka_client.create_consumer(
        broker.address, "lost", group, batch_records_max=10, fetch_wait_ms=100, session_timeout_ms=6000
    )

    def begin(assigned: Sequence[TopicPartition]) -> None:
        for each in assigned:
            consumer.seek(each, 0)

    consumer.subscribe([topic], listener=kafka_client.AssignmentListener(begin, lambda _: None))
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < ends_at
        kafka_client.poll_records(consumer, 100, 10)
    yield consumer
    consumer.close(autocommit=False)


@pytest.fixture
def killed(broker: BrokerProcess, consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch) -> BrokerProcess:
    """The coordinator is gone, and the next request for metadata goes to the same broker: bad luck, with three."""
    broker.kill()
    refused = KafkaConnectionError("refused")
    monkeypatch.setattr(consumer._cluster, "request_update", lambda: Future().failure(refused))
    return broker


def test_the_client_still_raises(killed: BrokerProcess, consumer: KafkaConsumer) -> None:
    """If this fails, kafka-python is fixed, and `poll_records` need not catch it."""
    with pytest.raises(RetriableError):
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends_at:
            consumer.poll(timeout_ms=500)


def test_our_polls_go_on_until_the_broker_is_back(
    killed: BrokerProcess, consumer: KafkaConsumer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls, ends_at = 0, time.monotonic() + AWAY_SECONDS
    while time.monotonic() < ends_at:
        assert not kafka_client.poll_records(consumer, 500, 10).records
        polls += 1
    assert polls < 20 * AWAY_SECONDS, "it must not spin"
    monkeypatch.undo()
    killed.start()
    with Wire(killed.port) as wire:
        wire.produce(topic)
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not kafka_client.poll_records(consumer, 500, 10).records:
        assert time.monotonic() < ends_at
