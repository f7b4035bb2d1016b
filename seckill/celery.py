"""The Celery application. Its workers deliver notifications and expire orders promptly; the sweeps would do the same
later, so no work depends on its queues."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_ready, worker_shutdown
from kombu.entity import Queue

from seckill.config.database import BATCH_STATEMENT_MS
from seckill.messaging import ready_file
from seckill.monitoring import spans
from seckill.monitoring.signs_of_life import start_signs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
if "worker" in sys.argv[1:]:  # this process is a worker, not a service that enqueues tasks
    os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(BATCH_STATEMENT_MS))
    # Celery closes the connection after each task. A new one costs both sides more than the task, so a pool keeps it.
    os.environ.setdefault("SECKILL_DATABASE_POOL", "16")

app = Celery("seckill")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["notifications", "orders"])

# One queue for each notification channel, so a worker can serve a single channel (`-Q notify.sms`).
app.conf.task_queues = [Queue(name) for name in ("celery", "notify.sms", "notify.email", "notify.push")]  # type: ignore[no-untyped-call]


def _mark_ready(**_: Any) -> None:
    ready_file.mark_ready()
    signs = start_signs()
    if signs is not None:
        worker_shutdown.connect(lambda **_: signs.say_goodbye(), weak=False)


def _start_spans(**_: Any) -> None:
    spans.start("celery")


def _stop_spans(**_: Any) -> None:
    spans.stop()


worker_init.connect(_start_spans)
worker_ready.connect(_mark_ready)
worker_shutdown.connect(_stop_spans)
