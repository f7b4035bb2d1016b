"""The cast of the messaging tests: a topic, its records, and a handler whose effects show every loss and repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django.db import connection
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from seckill.messaging import offsets
from seckill.messaging.envelope import new_envelope
from seckill.messaging.models import OutboxRow
from seckill.messaging.records import Batch
from seckill.messaging.topics import Topic

TOPIC = Topic("test.events", writer="effects", readers=("readers",), partitions=2)
EFFECTS = "effects"


class Notes:
    """A naive handler: one row for each event, without deduplication."""

    def __init__(
        self, before: Callable[[Batch], None] = lambda batch: None, topic: Topic = TOPIC, group: str = "readers"
    ) -> None:
        self.group, self.topics = group, (topic,)
        self.sizes: list[int] = []
        self._before = before

    def handle(self, batch: Batch) -> None:
        self.sizes.append(len(batch.records))
        self._before(batch)
        with connection.cursor() as cursor:
            for record in batch.records:
                text = str(record.envelope.body["text"])
                cursor.execute(
                    "INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at)"
                    " VALUES (%s, %s, %s, %s, %s, '{}', now())",
                    [EFFECTS, record.topic, text, uuid4(), b""],
                )


def effects() -> list[str]:
    return list(OutboxRow.objects.filter(writer=EFFECTS).order_by("id").values_list("key", flat=True))


def make_topic(bootstrap_servers: str, partitions: int = 2) -> Topic:
    """A new topic."""
    topic = Topic(f"test.{uuid4().hex[:8]}", writer=EFFECTS, readers=("readers",), partitions=partitions)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics([NewTopic(topic.name, partitions, 1)])
    admin.close()
    return topic


def fill(bootstrap_servers: str, topic: Topic, numbers: Iterable[int]) -> None:
    """Number n goes to partition n modulo the number of partitions."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", linger_ms=5)
    for number in numbers:
        producer.send(topic.name, key=b"user", value=value(str(number)), partition=number % topic.partitions)
    producer.flush()
    producer.close()


def value(text: str) -> bytes:
    return new_envelope("Said", 1, {"text": text}, cause=None, origin=None).encode()


def record(offset: int, text: str | None = None, *, content: bytes | None = None) -> Any:
    """In the shape of a record of kafka-python."""
    return SimpleNamespace(
        topic=TOPIC.name,
        partition=0,
        offset=offset,
        timestamp=1,
        key=b"user",
        value=value(str(offset) if text is None else text) if content is None else content,
        headers=[],
    )


def records(count: int, start: int = 0) -> Sequence[Any]:
    return [record(offset) for offset in range(start, start + count)]


def claim(partition: int = 0) -> offsets.PartitionClaim:
    return offsets.claim_partition("cluster", "topic", TOPIC.name, partition, "readers", 0)
