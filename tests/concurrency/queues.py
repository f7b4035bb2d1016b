"""Celery's queues in a test: the application uses the test's Redis."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from kombu import pools
from redis import Redis

from seckill.celery import app
from seckill.resilience.task_hints import breaker


@contextmanager
def celery_queues() -> Iterator[Redis]:
    address = settings.ENVIRONMENT.celery_redis_url
    client: Redis = Redis.from_url(address)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("broker_url", "broker_read_url", "broker_write_url"):
            patch.setitem(app.conf, name, address)
        app._pool = app.amqp._producer_pool = None  # recreated with the test's address
        breaker.record_success()
        yield client
    pools.reset()
    app._pool = app.amqp._producer_pool = None
    client.close()


def tasks_in(queues: Redis, name: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in queues.lrange(name, 0, -1)]


def arguments_of(task: dict[str, Any]) -> list[Any]:
    arguments: list[Any] = json.loads(b64decode(task["body"]))[0]
    return arguments
