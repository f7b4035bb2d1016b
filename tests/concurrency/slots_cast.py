"""The cast of the tests on slots and diverts: a writer, a lease of another process, a silent progress report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

from django.utils import timezone
from kafka import KafkaProducer

from seckill.messaging.models import ProducerLease
from seckill.messaging.slots import SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess


def quiet(text: str) -> None:
    """Where a command would print its progress."""


@contextmanager
def writing(broker: BrokerProcess, topic: Topic, name: str = "writer") -> Iterator[SlotWriter]:
    producer = KafkaProducer(
        bootstrap_servers=broker.address, acks="all", delivery_timeout_ms=10_000, request_timeout_ms=5_000
    )
    writer = SlotWriter(topic, name, producer)
    try:
        writer.start()
        yield writer
    finally:
        writer.close()
        producer.close()


def lease_of(topic: Topic, ends_in_s: float) -> ProducerLease:
    return ProducerLease.objects.create(
        id=uuid4(), topic=topic.name, name="slow", version=1, partitions=2,
        expires_at=timezone.now() + timedelta(seconds=ends_in_s),
    )  # fmt: skip
