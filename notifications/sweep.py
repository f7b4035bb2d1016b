"""What notifications look for every two seconds: deliveries that are due, to be enqueued (again)."""

from __future__ import annotations

from notifications.tasks import enqueue_due
from seckill.streams.pruning import LOOK_S, Pruner
from seckill.streams.sweeping import Sweep, Sweeps

BEAT_S = 2.0


def look() -> bool:
    """What was enqueued is still due until it is delivered: looking at once again would find the same."""
    enqueue_due()
    return False


def sweep() -> Sweeps:
    pruning = Sweep("notifications retention", LOOK_S, Pruner("notifications").look)
    return Sweeps(Sweep("notifications", BEAT_S, look), pruning)
