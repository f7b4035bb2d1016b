"""Publishing: the event becomes a row in the transaction of the change it tells of; the relay does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from seckill.envelope import Envelope
from seckill.streams import statements, traces
from seckill.topics import Topic

NOTIFY_CHANNEL = "streams_outbox"

_INSERT = """
INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at)
SELECT %b, topic, key, event_id, value, headers::jsonb, now()
FROM unnest(%b::text[], %b::text[], %b::uuid[], %b::bytea[], %b::text[])
    WITH ORDINALITY AS row (topic, key, event_id, value, headers, number)
ORDER BY number
"""


class Event(NamedTuple):
    topic: Topic
    key: str
    envelope: Envelope


class Row(NamedTuple):
    """What the relay will send."""

    topic: str
    key: str
    event_id: UUID
    value: bytes
    headers: Mapping[str, str]


def publish(events: Iterable[Event]) -> None:
    """Inside a transaction, after the aggregate's lock is held."""
    listed = list(events)
    writers = {event.topic.writer for event in listed}
    assert len(writers) <= 1, "one service publishes for itself only"
    for writer in writers:
        insert(writer, [_row(event) for event in listed])


def insert(writer: str, rows: Sequence[Row]) -> None:
    assert connection.in_atomic_block, "an event is published in the transaction of its change"
    topics, keys, ids, values, headers = zip(*rows, strict=True)
    columns = [list(topics), list(keys), list(ids), list(values), [orjson.dumps(each).decode() for each in headers]]
    statements.send(_INSERT, [writer, *columns])
    statements.send("SELECT pg_notify(%b, '')", [NOTIFY_CHANNEL])


def _row(event: Event) -> Row:
    envelope = event.envelope
    trace = {traces.HEADER: traces.child(envelope.event_id, envelope.cause)}
    return Row(event.topic.name, event.key, envelope.event_id, envelope.encode(), trace)
