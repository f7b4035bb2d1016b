"""Celery delivers; its queue is disposable: what is lost from it, the sweep enqueues again."""

from __future__ import annotations

import logging
from uuid import UUID

from celery.exceptions import CeleryError
from django.utils import timezone
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from notifications.delivery import deliver
from notifications.models import Delivery
from seckill.celery import app

log = logging.getLogger(__name__)

MOST_AT_ONCE = 500


@app.task(name="notifications.deliver", ignore_result=True)  # type: ignore[untyped-decorator]
def deliver_one(event_id: str, channel: str) -> None:
    deliver(UUID(event_id), channel)


def enqueue(event_id: str, channel: str) -> None:
    """Makes it prompt. If Celery's Redis is away the delivery is still due, and the sweep finds it."""
    try:
        deliver_one.apply_async((event_id, channel), retry=False)
    except (CeleryError, KombuError, RedisError, OSError) as fault:
        log.warning("not enqueued", extra={"event": event_id, "channel": channel, "reason": str(fault)})


def enqueue_due() -> int:
    """Everything that is due now, oldest first; being in the queue twice does no harm."""
    due = Delivery.objects.filter(state="due", due_at__lte=timezone.now()).order_by("id")[:MOST_AT_ONCE]
    for delivery in due:
        enqueue(str(delivery.event_id), delivery.channel)
    return len(due)
