"""What orders and money show to Prometheus."""

from __future__ import annotations

import time

from mqcore.metrics import Family
from orders.payments import provider
from seckill.metrics import gauge, samples, samples_by

FAMILIES: list[Family] = [
    gauge(
        "seckill_orders",
        "orders, by state",
        ("state",),
        samples_by("orders_order", "state", "PENDING_PAYMENT"),
    ),
    gauge(
        "seckill_orders_overdue_seconds",
        "how long the oldest unpaid order is beyond its time",
        (),
        samples(
            "SELECT coalesce(extract(epoch FROM max(now() - pay_before)), 0) FROM orders_order "
            "WHERE state = 'PENDING_PAYMENT' AND pay_before <= now()",
            0,
        ),
    ),
    gauge(
        "seckill_payments",
        "attempts to pay, by state; refunding: owed to a buyer",
        ("state",),
        samples_by("orders_payment", "state", "open", "refunding"),
    ),
    gauge(
        "seckill_discrepancies",
        "where the payment provider's log and ours do not agree; open: for an operator to look at",
        ("kind", "state"),
        samples("SELECT kind, state, count(*) FROM orders_discrepancy GROUP BY kind, state", 2),
    ),
    gauge(
        "seckill_provider_log_read",
        "how far the payment provider's log has been compared, in its own numbers",
        (),
        samples("SELECT read_to FROM orders_provider_log", 0),
    ),
    gauge(
        "seckill_provider_breaker_state",
        "of this process's breaker around the payment provider: 0 closed, 1 half-open, 2 open",
        (),
        lambda: [((), float(provider.breaker.state(time.monotonic())))],
    ),
]
