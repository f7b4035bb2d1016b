"""The sweep of notifications, every two seconds: enqueue the deliveries that are ready."""

from __future__ import annotations

from notifications.tasks import enqueue_due_deliveries
from seckill.messaging.pruning import PRUNE_INTERVAL_SECONDS, Pruner
from seckill.messaging.sweep_loop import Sweep, Sweeps

INTERVAL_S = 2.0


def run_once() -> bool:
    """Always False: enqueued deliveries stay due until they are sent, so running again at once would find the same."""
    enqueue_due_deliveries()
    return False


def create_sweeps() -> Sweeps:
    return Sweeps(
        Sweep("notifications", INTERVAL_S, run_once),
        Sweep("notifications retention", PRUNE_INTERVAL_SECONDS, Pruner("notifications").run_once),
    )
