"""What the labs about messages share: a topic of numbers, and a table that shows which numbers took effect."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.db import connection
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from seckill.config.kafka_clients import client_options
from seckill.messaging.envelope import decode_envelope, new_envelope
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.records import Batch
from seckill.messaging.topics import Topic

GROUP = "lab"


def create_topic(bootstrap_servers: str, partitions: int = 1, name: str = "") -> Topic:
    topic = Topic(name or f"lab.{uuid4().hex[:8]}", writer=GROUP, readers=(GROUP,), partitions=partitions)
    admin = KafkaAdminClient(**client_options(bootstrap_servers))
    try:
        admin.create_topics([NewTopic(topic.name, partitions, 1)])
    finally:
        admin.close()
    return topic


def topic_named(name: str, partitions: int = 1) -> Topic:
    """The same topic in a worker."""
    return Topic(name, writer=GROUP, readers=(GROUP,), partitions=partitions)


def value(number: int) -> bytes:
    return new_envelope("Said", 1, {"number": number}, cause=None, origin=None).encode()


def number_of(content: bytes) -> int:
    return int(decode_envelope(content).body["number"])


@contextmanager
def producer(bootstrap_servers: str, **options: object) -> Iterator[KafkaProducer]:
    made = KafkaProducer(**client_options(bootstrap_servers), **({"acks": "all"} | options))
    try:
        yield made
    finally:
        made.close()


def fill(bootstrap_servers: str, topic: Topic, numbers: Iterable[int]) -> None:
    with producer(bootstrap_servers, linger_ms=5) as sending:
        for number in numbers:
            sending.send(topic.name, key=b"user", value=value(number), partition=number % topic.partitions)
        sending.flush()


def read_all(bootstrap_servers: str, topic: str, partitions: int = 1) -> list[int]:
    """The numbers in the topic, each partition from its start to its present end."""
    consumer = KafkaConsumer(**client_options(bootstrap_servers), enable_auto_commit=False)
    try:
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        ends = consumer.end_offsets(wanted)
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        numbers: list[int] = []
        while any(consumer.position(each) < ends[each] for each in wanted):
            for records in consumer.poll(500).values():
                numbers += [number_of(record.value) for record in records]
        return numbers
    finally:
        consumer.close()


# ── effects ──────────────────────────────────────────────────────────────────────────────────────


def create_effects_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE lab_effect (id bigserial PRIMARY KEY, number int NOT NULL, worker text NOT NULL)")


class NoteNumbers:
    """A naive handler: one row for each record, without any protection against a second delivery."""

    def __init__(self, topic: Topic, worker: str = "", pause_s: float = 0.0) -> None:
        self.group, self.topics = GROUP, (topic,)
        self._worker, self._pause_s = worker, pause_s

    def handle(self, batch: Batch) -> None:
        with connection.cursor() as cursor:
            for record in batch.records:
                time.sleep(self._pause_s)
                cursor.execute(
                    "INSERT INTO lab_effect (number, worker) VALUES (%s, %s)",
                    [record.envelope.body["number"], self._worker],
                )


def effects() -> list[int]:
    """The numbers that took effect, in order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM lab_effect ORDER BY id")
        return [int(number) for (number,) in cursor.fetchall()]


def lost_and_repeated(sent: Iterable[int], found: Iterable[int]) -> tuple[int, int]:
    counts = Counter(found)
    return sum(1 for number in sent if not counts[number]), sum(count - 1 for count in counts.values())


def records_read(topic: Topic, partition: int | None = None) -> int:
    """How far the group's rows are, in one partition or in all."""
    rows = ConsumerOffset.objects.filter(topic=topic.name, group=GROUP)
    if partition is not None:
        rows = rows.filter(partition=partition)
    return sum(rows.values_list("next_offset", flat=True))
