"""The Celery application: workers deliver notifications and make expiry prompt; nothing rests on its queue."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")

app = Celery("seckill")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["notifications", "orders"])
