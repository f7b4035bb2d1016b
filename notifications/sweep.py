"""The process that looks, every two seconds, for deliveries that are due and enqueues them (again)."""

from __future__ import annotations

import logging
import threading

from django.db import Error as DatabaseError
from django.db import close_old_connections

from notifications.tasks import enqueue_due
from seckill.streams.ready import announce

log = logging.getLogger(__name__)

BEAT_S = 2.0


class Sweep:
    def __init__(self) -> None:
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        announce()
        while not self._stopping.wait(BEAT_S):
            try:
                enqueue_due()
            except DatabaseError as fault:
                log.warning("sweep pauses", extra={"reason": str(fault)})
                close_old_connections()
