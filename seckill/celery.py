"""The Celery application: workers deliver notifications and make expiry prompt; nothing rests on its queues."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from celery import Celery
from celery.exceptions import CeleryError
from celery.signals import worker_ready
from kombu.entity import Queue
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from seckill.breaker import Breaker
from seckill.database import BATCH_STATEMENT_MS
from seckill.streams import ready

log = logging.getLogger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
if "worker" in sys.argv[1:]:  # this is the worker, not a service that enqueues
    os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(BATCH_STATEMENT_MS))

app = Celery("seckill")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["notifications", "orders"])

# A queue for each channel of notifications: a worker may be given one of them only (`-Q notify.sms`).
app.conf.task_queues = [Queue(name) for name in ("celery", "notify.sms", "notify.email", "notify.push")]  # type: ignore[no-untyped-call]

_breaker = Breaker(most_failures=1, open_s=2.0)


def _announce(**_: Any) -> None:
    ready.announce()


worker_ready.connect(_announce)


class Hint(NamedTuple):
    task: Any
    calls: Sequence[tuple[Any, ...]]
    options: dict[str, Any]


HINTS_MAX = 1000
_hints: queue.Queue[Hint] = queue.Queue(HINTS_MAX)
_starting = threading.Lock()
_threads: list[threading.Thread] = []


def hint_soon(task: Any, calls: Sequence[tuple[Any, ...]], **options: Any) -> bool:
    """As `hint`, on a thread of its own: the caller never waits for Redis. False: too many wait already; the sweep does
    it."""
    with _starting:
        if not _threads:
            _threads.append(threading.Thread(target=_enqueue, name="hints", daemon=True))
            _threads[0].start()
    try:
        _hints.put_nowait(Hint(task, calls, options))
    except queue.Full:
        return False
    return True


def _enqueue() -> None:
    while True:
        task, calls, options = _hints.get()
        hint(task, calls, **options)
        _hints.task_done()


def hint(task: Any, calls: Sequence[tuple[Any, ...]], **options: Any) -> bool:
    """Enqueue a task for each of these arguments, if that is possible just now: it only makes prompt what a sweep would
    do anyway. False: it is not; then nobody waits for it again for two seconds."""
    if not _breaker.may_try(time.monotonic()):
        return False
    try:
        with app.producer_or_acquire() as producer:
            for arguments in calls:
                task.apply_async(arguments, producer=producer, retry=False, **options)
    except (CeleryError, KombuError, RedisError, OSError) as fault:
        _breaker.failed(time.monotonic())
        log.warning("not enqueued", extra={"task": task.name, "reason": str(fault)})
        return False
    _breaker.succeeded()
    return True
