"""The outbox: an event is stored in the transaction of the change that it announces; the relay publishes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from seckill.messaging import binary_sql
from seckill.messaging.envelope import Envelope
from seckill.messaging.topics import Topic
from seckill.monitoring import spans, traces

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


class OutboxInsert(NamedTuple):
    """One row, as the relay will send it."""

    topic: str
    key: str
    event_id: UUID
    value: bytes
    headers: Mapping[str, str]


def publish(events: Iterable[Event]) -> None:
    """Call this in a transaction that holds the aggregate's lock, so events of one key are stored in order."""
    events = list(events)
    writers = {event.topic.writer for event in events}
    assert len(writers) <= 1, "a service may publish only to its own topics"
    for writer in writers:
        insert_rows(writer, [_row(event) for event in events])


def insert_rows(writer: str, rows: Sequence[OutboxInsert]) -> None:
    assert connection.in_atomic_block, "an event must be stored in the transaction of its change"
    topics, keys, ids, values, headers = zip(*rows, strict=True)
    columns = [list(topics), list(keys), list(ids), list(values), [orjson.dumps(each).decode() for each in headers]]
    binary_sql.send_only(_INSERT, [writer, *columns])
    binary_sql.send_only("SELECT pg_notify(%b, '')", [NOTIFY_CHANNEL])


def _row(event: Event) -> OutboxInsert:
    envelope = event.envelope
    trace = {traces.HEADER: spans.create_event(event.topic.name, envelope.event_id, envelope.cause)}
    return OutboxInsert(event.topic.name, event.key, envelope.event_id, envelope.encode(), trace)
