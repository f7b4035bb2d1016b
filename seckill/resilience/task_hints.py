"""Shell: enqueue Celery tasks as hints. A hint makes work prompt; the sweeps find the same work without it.

So nothing is retried: while Redis is unavailable, hints are dropped, and a circuit breaker skips the attempts.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from celery.exceptions import CeleryError
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from seckill.resilience.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

WAITING_HINTS_MAX = 1000

breaker = CircuitBreaker(failures_max=1, open_seconds=2.0)


class _Hint(NamedTuple):
    task: Any
    calls: Sequence[tuple[Any, ...]]
    options: dict[str, Any]


_waiting: queue.Queue[_Hint] = queue.Queue(WAITING_HINTS_MAX)
_starting = threading.Lock()
_threads: list[threading.Thread] = []


def enqueue_in_background(task: Any, calls: Sequence[tuple[Any, ...]], **options: Any) -> bool:
    """As `try_enqueue`, on a background thread, so the caller never waits for Redis. False if too many hints wait."""
    with _starting:
        if not _threads:
            _threads.append(threading.Thread(target=_run, name="task hints", daemon=True))
            _threads[0].start()
    try:
        _waiting.put_nowait(_Hint(task, calls, options))
    except queue.Full:
        return False
    return True


def try_enqueue(task: Any, calls: Sequence[tuple[Any, ...]], **options: Any) -> bool:
    """Enqueue the task once for each tuple of arguments. False if that is not possible now."""
    if not breaker.allows_call(time.monotonic()):
        return False
    try:
        with task.app.producer_or_acquire() as producer:
            for arguments in calls:
                task.apply_async(arguments, producer=producer, retry=False, **options)
    except (CeleryError, KombuError, RedisError, OSError) as fault:
        breaker.record_failure(time.monotonic())
        log.warning("task not enqueued", extra={"task": task.name, "reason": str(fault)})
        return False
    breaker.record_success()
    return True


def _run() -> None:
    while True:
        task, calls, options = _waiting.get()
        try_enqueue(task, calls, **options)
        _waiting.task_done()
