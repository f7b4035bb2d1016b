"""Celery delivers, from a queue for each channel. The queues are disposable: what is lost from them, the sweep enqueues
again; and they are short, for while no worker is there they would only grow.
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

from notifications import breaker
from notifications.delivery import at_their_turn, deliver
from notifications.messages import CHANNELS
from notifications.models import Delivery
from seckill.breaker import State
from seckill.celery import app, hint
from seckill.streams import traces

log = logging.getLogger(__name__)

MOST_QUEUED = 1000
"""Tasks in a channel's queue, from then on the rest waits in the table."""


@app.task(name="notifications.deliver", ignore_result=True, bind=True)  # type: ignore[untyped-decorator]
def deliver_one(self: Any, event_id: str, channel: str) -> None:
    ended = deliver(UUID(event_id), channel, (self.request.headers or {}).get(traces.HEADER, ""))
    if ended is not None and ended.after is not None:
        enqueue([ended.after])


def enqueue(deliveries: Sequence[Delivery]) -> int:
    """Makes it prompt: how many were enqueued. Whatever was not is still due, and the sweep finds it."""
    done = 0
    for channel in {delivery.channel for delivery in deliveries}:
        room = MOST_QUEUED - queued(channel)
        for delivery in [each for each in deliveries if each.channel == channel][: max(0, room)]:
            headers = {traces.HEADER: delivery.traceparent} if delivery.traceparent else {}
            call = (str(delivery.event_id), channel)
            if not hint(deliver_one, [call], queue=queue_of(channel), headers=headers):
                return done
            done += 1
    return done


def enqueue_due() -> int:
    """Everything whose turn it is, oldest first, where a queue is empty: in one that is not, the oldest stand already,
    and each that stands there twice is work for nothing."""
    done = 0
    for channel in CHANNELS:
        if breaker.look(channel).state is State.OPEN or queued(channel):
            continue
        due = at_their_turn(Delivery.objects.filter(channel=channel)).order_by("id")
        done += enqueue(list(due[:MOST_QUEUED]))
    return done


def queue_of(channel: str) -> str:
    return f"notify.{channel}"


def queued(channel: str) -> int:
    """How long a channel's queue is; where nobody can tell, as long as it may be."""
    try:
        return int(_redis(settings.ENVIRONMENT.celery_redis_url).llen(queue_of(channel)))
    except RedisError as fault:
        log.warning("queue unknown", extra={"channel": channel, "reason": str(fault)})
        return MOST_QUEUED


@lru_cache(maxsize=2)
def _redis(url: str) -> Redis:
    client: Redis = Redis.from_url(url, socket_timeout=2, socket_connect_timeout=1)
    return client
