"""Celery sends the deliveries, from one queue per channel.

The sweep enqueues a lost task again, so queues are disposable. They are short, because without a worker they only grow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from notifications import channel_breaker
from notifications.delivery import deliver, filter_ready
from notifications.message_texts import CHANNELS
from notifications.models import Delivery
from seckill.celery import app
from seckill.monitoring import spans, traces
from seckill.resilience import redis_client
from seckill.resilience.circuit_breaker import BreakerState
from seckill.resilience.task_hints import try_enqueue

log = logging.getLogger(__name__)

QUEUE_TASKS_MAX = 1000
"""Per channel. Further deliveries wait in the table."""


@app.task(name="notifications.deliver", ignore_result=True, bind=True)  # type: ignore[untyped-decorator]
def deliver_one(self: Any, event_id: str, channel: str) -> None:
    traceparent = (self.request.headers or {}).get(traces.HEADER, "")
    with spans.processing_task(queue_name(channel), event_id, traceparent):
        result = deliver(UUID(event_id), channel, traceparent)
    if result is not None and result.next is not None:
        enqueue_deliveries([result.next])


def enqueue_deliveries(deliveries: Sequence[Delivery]) -> int:
    """Best effort. Returns how many were enqueued; the sweep finds the others."""
    done = 0
    for channel in {delivery.channel for delivery in deliveries}:
        room = QUEUE_TASKS_MAX - queue_length(channel)
        for delivery in [each for each in deliveries if each.channel == channel][: max(0, room)]:
            headers = {traces.HEADER: delivery.traceparent} if delivery.traceparent else {}
            arguments = (str(delivery.event_id), str(channel))
            if not try_enqueue(deliver_one, [arguments], queue=queue_name(channel), headers=headers):
                return done
            done += 1
    return done


def enqueue_due_deliveries() -> int:
    """Enqueue everything that is ready, oldest first, into queues that are empty.

    A queue that is not empty already contains the oldest deliveries; enqueuing them twice would be useless work.
    """
    done = 0
    for channel in CHANNELS:
        if channel_breaker.read_status(channel).state is BreakerState.OPEN or queue_length(channel):
            continue
        ready = filter_ready(Delivery.objects.filter(channel=channel)).order_by("id")
        done += enqueue_deliveries(list(ready[:QUEUE_TASKS_MAX]))
    return done


def queue_name(channel: str) -> str:
    return f"notify.{channel}"


def queue_length(channel: str) -> int:
    """Counts as full if Redis does not answer."""
    try:
        return int(_redis(settings.ENVIRONMENT.celery_redis_url).llen(queue_name(channel)))
    except RedisError as fault:
        log.warning("queue length unknown", extra={"channel": channel, "reason": str(fault)})
        return QUEUE_TASKS_MAX


@lru_cache(maxsize=2)
def _redis(url: str) -> Redis:
    return redis_client.connect(url, timeout_s=2)
