"""Metrics of orders and payments."""

from __future__ import annotations

import time

from orders.payments import provider
from seckill.monitoring.metrics import ComputedMetric, query, query_counts, registry_of

REGISTRY = registry_of(
    ComputedMetric(
        "seckill_orders",
        "orders, by state",
        ("state",),
        query_counts("orders_order", "state", "PENDING_PAYMENT"),
    ),
    ComputedMetric(
        "seckill_orders_overdue_seconds",
        "how far the oldest unpaid order is past its payment deadline",
        (),
        query(
            "SELECT coalesce(extract(epoch FROM max(now() - pay_before)), 0) FROM orders_order "
            "WHERE state = 'PENDING_PAYMENT' AND pay_before <= now()",
            0,
        ),
    ),
    ComputedMetric(
        "seckill_payments",
        "payment attempts, by state; `refunding` is money owed to a buyer",
        ("state",),
        query_counts("orders_payment", "state", "open", "refunding"),
    ),
    ComputedMetric(
        "seckill_discrepancies",
        "differences between the payment provider's log and our payments; open ones need an operator",
        ("kind", "state"),
        query("SELECT kind, state, count(*) FROM orders_discrepancy GROUP BY kind, state", 2),
    ),
    ComputedMetric(
        "seckill_provider_log_read",
        "number of the last line of the payment provider's log that was compared with our payments",
        (),
        query("SELECT read_to FROM orders_provider_log", 0),
    ),
    ComputedMetric(
        "seckill_provider_breaker_state",
        "this process's circuit breaker for the payment provider: 0 closed, 1 half-open, 2 open",
        (),
        lambda: [((), float(provider.breaker.state(time.monotonic())))],
    ),
)
