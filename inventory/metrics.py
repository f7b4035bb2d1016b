"""Inventory's metrics. `seckill.messaging.metrics` adds what the services share in this database."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from inventory import sale_view
from seckill.messaging import database_clock
from seckill.messaging.metrics import MESSAGING
from seckill.monitoring.metrics import ComputedMetric, Sample, query, registry_of
from seckill.resilience.admission_keys import prefix
from seckill.resilience.redis_servers import find_fault, redis_servers


def _clock_skew_seconds() -> list[Sample]:
    """Admission sets deadlines by Redis' clock; a decision compares them with Postgres' clock."""
    try:
        before = database_clock.now_ms()
        redis_time: Any = sale_view.redis().eval("return redis.call('TIME')", 1, prefix())
        after = database_clock.now_ms()
    except RedisError:
        return []
    seconds, micros = map(int, redis_time)
    return [((), ((before + after) / 2 - (seconds * 1000 + micros / 1000)) / 1000)]


def _redis_up() -> list[Sample]:
    faults = {server: find_fault(server.url) for server in redis_servers(settings.ENVIRONMENT)}
    return [((use,), float(not fault)) for server, fault in faults.items() for use in server.uses]


REGISTRY = registry_of(
    ComputedMetric(
        "seckill_redis_up",
        "1 if the Redis of this use answers, else 0; uses that share a server have the same value",
        ("use",),
        _redis_up,
    ),
    ComputedMetric(
        "seckill_clock_skew_seconds",
        "how far Postgres' clock is ahead of admission's Redis; requests expire earlier by this much",
        (),
        _clock_skew_seconds,
    ),
    ComputedMetric(
        "seckill_stock_units",
        "units of an article in a sale, by account",
        ("sale", "sku", "account"),
        query(
            "SELECT sale_id, sku, account, units FROM inventory_stock, "
            "LATERAL (VALUES ('available', available), ('reserved', reserved), ('sold', sold)) AS row (account, units)",
            3,
        ),
    ),
    ComputedMetric(
        "seckill_stock_version",
        "version of the stock row; its rate is the rate of grants and returns",
        ("sale", "sku"),
        query("SELECT sale_id, sku, version FROM inventory_stock", 2),
    ),
    ComputedMetric(
        "seckill_gate_owed",
        "articles whose counter in Redis must be rebuilt from the stock row",
        (),
        query("SELECT count(*) FROM inventory_stock WHERE gate_owed", 0),
    ),
    *MESSAGING,
)
