"""Helpers for tests with confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    Message,
    Producer,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)

from seckill.stack.broker_process import BrokerProcess

PATIENCE_S = 30.0


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.address})
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(PATIENCE_S)
    return admin


def produce(broker: BrokerProcess, topic: str, records: list[dict[str, Any]], **settings: Any) -> list[Message]:
    """Send all records and return their delivery reports in the order of delivery."""
    told: list[Message] = []
    failed: list[KafkaError] = []

    def heard(error: KafkaError | None, message: Message) -> None:
        told.append(message) if error is None else failed.append(error)

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, **dotted(settings)})
    for record in records:
        producer.produce(topic, on_delivery=heard, **record)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed, failed[0]
    return told


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@contextmanager
def consumer(broker: BrokerProcess, group: str, **settings: Any) -> Iterator[Consumer]:
    named = {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        **dotted(settings),
    }
    opened = Consumer(named)
    try:
        yield opened
    finally:
        opened.close()


def read(source: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    give_up = time.monotonic() + PATIENCE_S
    while len(found) < count:
        message = source.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
        assert time.monotonic() < give_up, f"{len(found)} of {count} records after {PATIENCE_S:.0f} s"
    return found


def until(what: Callable[[], bool], *sources: Consumer) -> None:
    """Poll the consumers until `what` holds. They must not receive records meanwhile, because those would be lost."""
    give_up = time.monotonic() + PATIENCE_S
    while not what():
        for source in sources:
            message = source.poll(0.05)
            assert message is None or message.error() is None
        assert time.monotonic() < give_up, "the condition never held"
