"""Metrics of deliveries and of the channels that carry them."""

from __future__ import annotations

from collections.abc import Iterable

from notifications import channel_breaker, tasks
from notifications.message_texts import CHANNELS
from seckill.monitoring.metrics import ComputedMetric, Sample, count_by, is_large, query, registry_of

_DUE_BY_CHANNEL = "SELECT channel, 'due', count(*) FROM notifications_delivery WHERE state = 'due' GROUP BY channel"
_ALL_BY_CHANNEL = "SELECT channel, state, count(*) FROM notifications_delivery GROUP BY channel, state"


def _deliveries() -> Iterable[Sample]:
    """Due deliveries are always counted. In a large table the other states are estimates that assume equal shares of
    the channels."""
    if not is_large("notifications_delivery"):
        return query(_ALL_BY_CHANNEL, 2)()
    finished = [each for each in count_by("notifications_delivery", "state") if each[0] != "due"]
    shares = [((channel, state), number // len(CHANNELS)) for channel in CHANNELS for state, number in finished]
    return [*query(_DUE_BY_CHANNEL, 2)(), *shares]


REGISTRY = registry_of(
    ComputedMetric(
        "seckill_deliveries",
        "deliveries, by channel and state",
        ("channel", "state"),
        _deliveries,
    ),
    ComputedMetric(
        "seckill_deliveries_late_seconds",
        "how long the oldest due delivery has been waiting, by channel",
        ("channel",),
        query(
            "SELECT channel, greatest(0, extract(epoch FROM max(now() - due_at))) FROM notifications_delivery "
            "WHERE state = 'due' GROUP BY channel",
            1,
        ),
    ),
    ComputedMetric(
        "seckill_channel_breaker_state",
        "circuit breaker of a channel: 0 closed, 1 half-open, 2 open",
        ("channel",),
        lambda: [((channel,), float(channel_breaker.read_status(channel).state)) for channel in CHANNELS],
    ),
    ComputedMetric(
        "seckill_channel_failures",
        "consecutive failures of a channel's gateway",
        ("channel",),
        lambda: [((channel,), float(channel_breaker.read_status(channel).failures)) for channel in CHANNELS],
    ),
    ComputedMetric(
        "seckill_channel_queued",
        "tasks in a channel's Celery queue",
        ("channel",),
        lambda: [((channel,), float(tasks.queue_length(channel))) for channel in CHANNELS],
    ),
)
