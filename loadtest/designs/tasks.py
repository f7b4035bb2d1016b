"""The Celery application of the design that decides each purchase in a task, with its own queue."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loadtest.designs.settings")

app = Celery("designs")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_default_queue = "designs"


@app.task(name="designs.decide")  # type: ignore[untyped-decorator]
def decide_in_task(envelope: str) -> None:
    from django.conf import settings

    from gateway.events import parse_purchase_request
    from loadtest.designs import purchase_rows
    from loadtest.designs.variants import row_lock
    from seckill.messaging.envelope import decode_envelope

    with purchase_rows.pool(settings.ENVIRONMENT.database_url).connection() as db:
        row_lock(db, settings.ENVIRONMENT.gate_redis_url, parse_purchase_request(decode_envelope(envelope.encode())))
