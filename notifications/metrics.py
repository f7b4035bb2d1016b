"""What notifications show to Prometheus."""

from __future__ import annotations

from mqcore.metrics import Family
from notifications import breaker, tasks
from notifications.messages import CHANNELS
from seckill.metrics import gauge, samples

FAMILIES: list[Family] = [
    gauge(
        "seckill_deliveries",
        "deliveries, by channel and state",
        ("channel", "state"),
        samples("SELECT channel, state, count(*) FROM notifications_delivery GROUP BY channel, state", 2),
    ),
    gauge(
        "seckill_deliveries_late_seconds",
        "how long the oldest delivery has been due, by channel",
        ("channel",),
        samples(
            "SELECT channel, greatest(0, extract(epoch FROM max(now() - due_at))) FROM notifications_delivery "
            "WHERE state = 'due' GROUP BY channel",
            1,
        ),
    ),
    gauge(
        "seckill_channel_breaker_state",
        "of the breaker of a channel: 0 closed, 1 half-open, 2 open",
        ("channel",),
        lambda: [((channel,), float(breaker.look(channel).state)) for channel in CHANNELS],
    ),
    gauge(
        "seckill_channel_failures",
        "failures in a row of a channel's sink",
        ("channel",),
        lambda: [((channel,), float(breaker.look(channel).failures)) for channel in CHANNELS],
    ),
    gauge(
        "seckill_channel_queued",
        "tasks in a channel's Celery queue",
        ("channel",),
        lambda: [((channel,), float(tasks.queued(channel))) for channel in CHANNELS],
    ),
]
