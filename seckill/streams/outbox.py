"""Publishing: the event becomes a row in the transaction of the change it tells of; the relay does the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection

from seckill.envelope import Envelope
from seckill.topics import Topic

NOTIFY_CHANNEL = "streams_outbox"

_INSERT = """
INSERT INTO streams_outbox (writer, topic, key, event_id, value, headers, created_at)
SELECT %s, topic, key, event_id, value, '{}'::jsonb, now()
FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::bytea[]) AS row (topic, key, event_id, value)
"""


class Event(NamedTuple):
    topic: Topic
    key: str
    envelope: Envelope


def publish(events: Iterable[Event]) -> None:
    """Inside a transaction, after the aggregate's lock is held."""
    listed = list(events)
    if not listed:
        return
    assert connection.in_atomic_block, "an event is published in the transaction of its change"
    writers = {event.topic.writer for event in listed}
    assert len(writers) == 1, "one service publishes for itself only"
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            [
                writers.pop(),
                [event.topic.name for event in listed],
                [event.key for event in listed],
                [event.envelope.event_id for event in listed],
                [event.envelope.encode() for event in listed],
            ],
        )
        cursor.execute("SELECT pg_notify(%s, '')", [NOTIFY_CHANNEL])
