"""What notifications show to Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from mqcore.metrics import Family, Sample
from notifications import breaker, tasks
from notifications.messages import CHANNELS
from seckill.metrics import counted_by, gauge, is_large, samples

_DUE = "SELECT channel, 'due', count(*) FROM notifications_delivery WHERE state = 'due' GROUP BY channel"
_ALL = "SELECT channel, state, count(*) FROM notifications_delivery GROUP BY channel, state"


def _deliveries() -> Iterable[Sample]:
    """What is due is counted; of a large table the rest is estimated, as if all channels had the same share of it."""
    if not is_large("notifications_delivery"):
        return samples(_ALL, 2)()
    states = [each for each in counted_by("notifications_delivery", "state") if each[0] != "due"]
    rest = [((channel, state), number // len(CHANNELS)) for channel in CHANNELS for state, number in states]
    return [*samples(_DUE, 2)(), *rest]


FAMILIES: list[Family] = [
    gauge(
        "seckill_deliveries",
        "deliveries, by channel and state",
        ("channel", "state"),
        _deliveries,
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
