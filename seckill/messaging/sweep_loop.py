"""Shell: runs a service's periodic work; a transient fault is retried at the next interval."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from django.db import Error as DatabaseError
from django.db import close_old_connections
from redis.exceptions import RedisError

from seckill.messaging.ready_file import mark_ready

log = logging.getLogger(__name__)


class Sweep:
    """`run_once` does what is due, and returns whether more is waiting, so it should run again at once."""

    def __init__(self, name: str, interval_s: float, run_once: Callable[[], bool]) -> None:
        self._name = name
        self._interval_s = interval_s
        self._run_once = run_once
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the current run, then return. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        mark_ready()
        while not self._stopping.is_set():
            try:
                has_more = self._run_once()
            except (DatabaseError, RedisError) as fault:
                log.warning("sweep failed, retrying", extra={"sweep": self._name, "reason": str(fault)})
                close_old_connections()
                has_more = False
            if not has_more:
                self._stopping.wait(self._interval_s)


class Sweeps:
    """Several sweeps in one process, each on a thread. If one fails for good, all stop and its fault is raised."""

    def __init__(self, *sweeps: Sweep) -> None:
        self._sweeps = sweeps

    def stop(self) -> None:
        for sweep in self._sweeps:
            sweep.stop()

    def run(self) -> None:
        with ThreadPoolExecutor(len(self._sweeps), "sweep") as pool:
            running = [pool.submit(sweep.run) for sweep in self._sweeps]
            for done in as_completed(running):
                self.stop()  # when the first one ends, whether it was stopped or has failed
                done.result()
