"""What inventory shows to Prometheus, and what all services share in its database: outbox, dead letters, offsets."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from inventory import rows, views
from mqcore.metrics import Family, Sample
from seckill.metrics import gauge, samples


def _skew() -> list[Sample]:
    """Admission sets deadlines by Redis' clock, a decision heeds them by Postgres'."""
    try:
        before = rows.now_ms()
        now: Any = views.redis().time()
        after = rows.now_ms()
    except RedisError:
        return []
    seconds, micros = now
    return [((), ((before + after) / 2 - (seconds * 1000 + micros / 1000)) / 1000)]


FAMILIES: list[Family] = [
    gauge(
        "seckill_clock_skew_seconds",
        "by how much Postgres' clock is ahead of admission's Redis: so much earlier a request is too late",
        (),
        _skew,
    ),
    gauge(
        "seckill_stock_units",
        "units of an article in a sale, by account",
        ("sale", "sku", "account"),
        samples(
            "SELECT sale_id, sku, account, units FROM inventory_stock, "
            "LATERAL (VALUES ('available', available), ('reserved', reserved), ('sold', sold)) AS row (account, units)",
            3,
        ),
    ),
    gauge(
        "seckill_stock_version",
        "of the stock row: grows with each change, so its rate is that of grants and returns",
        ("sale", "sku"),
        samples("SELECT sale_id, sku, version FROM inventory_stock", 2),
    ),
    gauge(
        "seckill_gate_owed",
        "articles whose counter in Redis is to be counted anew",
        (),
        samples("SELECT count(*) FROM inventory_stock WHERE gate_owed", 0),
    ),
    gauge(
        "seckill_outbox_rows",
        "events that are true and not published yet, by the service that says them",
        ("writer",),
        samples("SELECT writer, count(*) FROM streams_outbox GROUP BY writer", 1),
    ),
    gauge(
        "seckill_outbox_oldest_seconds",
        "how long the oldest of them has been waiting",
        (),
        samples("SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0) FROM streams_outbox", 0),
    ),
    gauge(
        "seckill_dead_letters",
        "records that could not be worked on, by group and state; open and quarantined wait for an operator",
        ("group", "state"),
        samples("SELECT consumer_group, state, count(*) FROM streams_dead_letter GROUP BY consumer_group, state", 2),
    ),
    gauge(
        "seckill_group_offset",
        "how far a group has read a topic, over all its partitions; beside mqcore's log end this is its lag",
        ("group", "topic"),
        samples("SELECT consumer_group, topic, sum(next_offset) FROM streams_offset GROUP BY consumer_group, topic", 2),
    ),
    gauge(
        "seckill_group_halted",
        "partitions in which a group halted because the log is not the one that it read; `seckill offsets` goes on",
        ("group", "topic"),
        samples("SELECT consumer_group, topic, count(*) FROM streams_offset WHERE halted <> '' GROUP BY 1, 2", 2),
    ),
    gauge(
        "seckill_group_off",
        "groups that an operator has switched off",
        ("group",),
        samples("SELECT consumer_group, 1 FROM streams_switch", 1),
    ),
    gauge(
        "seckill_queue_diverted",
        "1 while new requests are diverted",
        (),
        samples("SELECT count(*) FROM streams_slot_map WHERE diverted > 0", 0),
    ),
]
