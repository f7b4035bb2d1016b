"""Metrics of the messaging tables: outbox, dead letters, offsets, switches. One service's page shows all groups."""

from __future__ import annotations

from seckill.monitoring.metrics import ComputedMetric, query

MESSAGING = (
    ComputedMetric(
        "seckill_outbox_rows",
        "events committed but not published yet, by the service that wrote them",
        ("writer",),
        query("SELECT writer, count(*) FROM streams_outbox GROUP BY writer", 1),
    ),
    ComputedMetric(
        "seckill_outbox_oldest_seconds",
        "age of the oldest unpublished event",
        (),
        query("SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0) FROM streams_outbox", 0),
    ),
    ComputedMetric(
        "seckill_dead_letters",
        "records that could not be processed, by group and state; open and quarantined ones need an operator",
        ("group", "state"),
        query("SELECT consumer_group, state, count(*) FROM streams_dead_letter GROUP BY consumer_group, state", 2),
    ),
    ComputedMetric(
        "seckill_group_offset",
        "offset of a group in a topic, summed over partitions; the broker's log end minus this is the lag",
        ("group", "topic"),
        query("SELECT consumer_group, topic, sum(next_offset) FROM streams_offset GROUP BY consumer_group, topic", 2),
    ),
    ComputedMetric(
        "seckill_group_halted",
        "partitions where a group halted because the log has changed; `seckill offsets resume` continues",
        ("group", "topic"),
        query("SELECT consumer_group, topic, count(*) FROM streams_offset WHERE halted <> '' GROUP BY 1, 2", 2),
    ),
    ComputedMetric(
        "seckill_group_off",
        "groups that an operator has switched off",
        ("group",),
        query("SELECT consumer_group, 1 FROM streams_switch", 1),
    ),
    ComputedMetric(
        "seckill_queue_diverted",
        "1 while new requests are diverted",
        (),
        query("SELECT count(*) FROM streams_slot_map WHERE diverted > 0", 0),
    ),
)
