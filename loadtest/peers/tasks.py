"""The Celery application of the peer that decides each purchase in a task; a queue of its own."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "loadtest.peers.settings")

app = Celery("peers")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_default_queue = "peers"


@app.task(name="peers.decide")  # type: ignore[untyped-decorator]
def decide_later(envelope: str) -> None:
    from django.conf import settings

    from gateway.events import read
    from loadtest.peers import books
    from loadtest.peers.designs import row_lock
    from seckill.envelope import decode

    with books.pool(settings.ENVIRONMENT.database_url).connection() as db:
        row_lock(db, settings.ENVIRONMENT.gate_redis_url, read(decode(envelope.encode())))
