"""Shell: the report service: one process that makes the reports that operators order, and watches the others meanwhile.

seckill report serve
"""

from __future__ import annotations

import socket
from pathlib import Path

from django.conf import settings
from django.db import Error as DatabaseError

from seckill.config.public_bind import check_bind
from seckill.console.reports import queue
from seckill.console.reports.worker import ReportWorker
from seckill.console.watch.probes import probes
from seckill.console.watch.watcher import Watcher
from seckill.messaging.sweep_loop import Sweep, Sweeps

INTERVAL_SECONDS = 1.0


class ReportService:
    """`listen` is the address for signs of life, HOST:PORT; without it no process sends any."""

    def __init__(self, data: Path, listen: str | None) -> None:
        self._worker = ReportWorker(data)
        self._watcher = Watcher(list(probes(settings.ENVIRONMENT)), _listener(listen) if listen else None)
        self._sweeps = Sweeps(
            Sweep("reports", INTERVAL_SECONDS, self._worker.run_once),
            Sweep("watch", INTERVAL_SECONDS, self._watcher.run_once),
        )

    def stop(self) -> None:
        """Safe in a signal handler."""
        self._worker.stop()
        self._watcher.stop()
        self._sweeps.stop()

    def run(self) -> None:
        self._sweeps.run()
        try:
            queue.sign_off()
        except DatabaseError:
            pass  # Postgres was stopped first; the next start then says that nothing was watched


def _listener(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((check_bind(host, "the report service"), int(port)))
    return listener
