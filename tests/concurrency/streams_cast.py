"""The cast of the streams' tests: a topic, records of it, and a handler whose effects show every loss and doubling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django.db import connection

from seckill.envelope import new
from seckill.streams import offsets
from seckill.streams.models import OutboxRow
from seckill.streams.records import Batch
from seckill.topics import Topic

TOPIC = Topic("test.events", writer="effects", readers=("readers",), partitions=2)
EFFECTS = "effects"


class Notes:
    """A naive handler: one row an event, and nothing that would dedupe them."""

    group = "readers"
    topics = (TOPIC,)

    def __init__(self, before: Callable[[Batch], None] = lambda batch: None) -> None:
        self._before = before
        self.sizes: list[int] = []

    def handle(self, batch: Batch) -> None:
        self.sizes.append(len(batch.records))
        self._before(batch)
        with connection.cursor() as cursor:
            for record in batch.records:
                text = str(record.envelope.body["text"])
                cursor.execute(
                    "INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at)"
                    " VALUES (%s, %s, %s, %s, %s, '{}', now())",
                    [EFFECTS, TOPIC.name, text, uuid4(), b""],
                )


def effects() -> list[str]:
    return list(OutboxRow.objects.filter(writer=EFFECTS).order_by("id").values_list("key", flat=True))


def value(text: str) -> bytes:
    return new("Said", 1, {"text": text}, cause=None, origin=None).encode()


def record(offset: int, text: str | None = None, *, content: bytes | None = None) -> Any:
    """As kafka-python gives it."""
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


def claim(partition: int = 0) -> offsets.Claim:
    return offsets.claim("cluster", "topic", TOPIC.name, partition, Notes.group, 0)
